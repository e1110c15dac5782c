// Package jet keeps Millrace's log, heartbeats, definitions and output in NATS JetStream. It is the
// only package, with its subpackages, that knows subjects, stream names and the server's error
// codes; all others deal in facts, offers and nodes.
//
// It holds no rules about tasks. The comments of its methods say what they promise beyond the ports
// that they implement; docs/design/nats.md says what it relies on in the server.
//
// It also knows which nodes are there: it holds their heartbeats, and the hints and pings
// to their processes.
package jet
