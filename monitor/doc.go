// Package monitor serves the figures of package metrics to Prometheus, and tells over HTTP whether
// a process lives and whether it is ready.
//
// It only reads: requests change nothing. It has no authentication: every client that reaches the
// address may read. Every process has one [Monitor] with its own registry.
package monitor
