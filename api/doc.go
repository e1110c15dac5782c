// Package api answers requests over NATS: a service called "millrace" that any
// client in any language can ask, the nats command line included. Requests and
// answers are JSON; an error is a header, as NATS services have it.
package api
