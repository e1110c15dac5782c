// Package pubsub sends messages to a JetStream server and asks it for some. A [Publisher] sends many
// in one write, and returns the acknowledgement of each: singly, or in groups if the server flushes
// every write. A [Puller] asks a consumer for messages: never for more than its owner wants, and
// again if a request was lost. A [Feed] hands on what comes on foreign subjects and streams.
package pubsub
