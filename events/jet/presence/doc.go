// Package presence knows which nodes are there: it holds their heartbeats, and the hints and pings
// to their processes.
package presence
