package events

// Lasting is a [Lease] that another process can go on with.
type Lasting interface {
	Lease
	// Token names the lease to the store that it is of.
	Token() string
}
