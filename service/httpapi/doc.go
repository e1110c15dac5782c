// Package httpapi answers requests over HTTP, beside the NATS service and with the same verbs: it
// turns a method, a path, a query and a body into the request that [answers.Desk] takes, and the desk's
// answer into a response. It holds no rules about tasks. Its own concerns are authentication, the
// addresses it serves, and how answers travel.
package httpapi
