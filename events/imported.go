package events

// Import says what a log lacks because it was imported from an incident file, or has forgotten its front.
// It is zero for any other log.
type Import struct {
	// Hidden is the sequence up to which values may be hidden, because the file was redacted. 0 if
	// none are.
	Hidden uint64 `json:"hidden,omitempty"`
	// Lacks is the sequence up to which facts are missing: the file held only what lived in its
	// span, or the log begins at its horizon. 0 if none are.
	Lacks uint64 `json:"lacks,omitempty"`
}
