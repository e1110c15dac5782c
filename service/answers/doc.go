// Package answers answers requests over NATS: a service called "millrace" that clients in any language
// can use, the nats command line included. Requests and answers are JSON; errors are headers, as
// usual for NATS services.
package answers
