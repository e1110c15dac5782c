// Package monitor serves the figures of package metrics to Prometheus, and says
// over HTTP whether a process lives and whether it is ready.
//
// Nothing that it serves can be changed through it, and nobody is asked who they
// are: whoever reaches the address may read. Every process has one [Monitor]
// with a registry of its own.
package monitor
