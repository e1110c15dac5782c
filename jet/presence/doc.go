// Package presence tells whether nodes are there: their heartbeats, and the hints and pings that go to their processes.
package presence
