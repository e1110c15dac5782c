// Package jet keeps Millrace's log, heartbeats, definitions and output in NATS
// JetStream. It is the only package that knows subjects, stream names and the
// server's error codes; everybody else speaks of facts, offers and nodes.
//
// It holds no rules about tasks. What it promises beyond the ports that it
// implements is in their comments; what it relies on of the server is in
// docs/architecture.md.
package jet
