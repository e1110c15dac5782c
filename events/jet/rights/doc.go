// Package rights defines what each role may do: which verbs it may ask the service for, and what
// the users of a NATS server may publish and subscribe to, in one account or in one per role. It
// prints the configuration for the server; it connects to none.
package rights
