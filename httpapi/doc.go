// Package httpapi answers requests over HTTP, beside the NATS service and with the same verbs: it turns a method, a path,
// a query and a body into the request that [api.Desk] takes, and what that answers into a response. It has no rules of
// its own about tasks; what is its own is who asks, from where, and how answers travel.
package httpapi
