// Package roles defines who may do what: which role may ask the service for which verb, and what
// the users of a NATS server may publish and subscribe to, in one account or in one per role. It
// prints the configuration for the server; it connects to none.
package roles
