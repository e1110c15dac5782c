// Package publish sends messages to a JetStream server, many in one write, and returns the
// acknowledgement of each: singly, or in groups if the server flushes every write.
package publish
