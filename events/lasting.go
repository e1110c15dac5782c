package events

// Lasting is a [Lease] that another process can take over.
type Lasting interface {
	Lease
	// Token identifies the lease to its store.
	Token() string
}
