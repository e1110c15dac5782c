// Package answers answers requests over NATS: a service called "millrace" that clients in any language
// can use, the nats command line included. Requests and answers are JSON; errors are headers, as
// usual for NATS services. Package httpapi answers the same requests over HTTP.
//
// To add a verb: name it in package rights, with its access. Write its entry into verbs.go:
// what it is about, the function that does it, the kinds of problems that refuse it and its
// routes, and, if a person types it, its [Command]. The request is a struct whose docstrings describe
// the fields over HTTP, and whose tags are the flags of the command. What it does should be one call of
// the client, and what may refuse it a rule of package task. The service, HTTP and its document, what
// roles may do, and the command follow.
package answers
