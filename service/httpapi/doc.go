// Package httpapi answers requests over HTTP, beside the NATS service and with the same verbs: it
// turns a method, a path, a query and a body into the request that [answers.Desk] takes, and the desk's
// answer into a response. It holds no rules about tasks. Its own concerns are authentication, the
// addresses it serves, and how answers travel.
//
// An [Assistant] speaks the Model Context Protocol, over HTTP or as a command. Its tools are verbs and
// jobs: a verb's arguments are the fields of its request, a job's its parameters.
package httpapi
