// Package roles says who may do what: which role may ask the service for which verb, and what the users of a NATS
// server may publish and hear, in one account or in one for each role. It prints that for the server, and asks nobody.
package roles
