// Package publish sends messages to a JetStream server, many in one write, and brings each its acknowledgement: by itself,
// or in groups where the server flushes every write.
package publish
