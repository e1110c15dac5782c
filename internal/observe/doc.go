// Package observe serves the figures of package metrics to Prometheus, and tells over HTTP whether
// a process lives and whether it is ready.
//
// It only reads: requests change nothing. It has no authentication: every client that reaches the
// address may read. Every process has one [Monitor] with its own registry.
//
// It sends spans with OpenTelemetry's official library, to the destination in
// OpenTelemetry's environment variables. No other package uses that library.
//
// It makes an OpenTelemetry trace from a task's facts in the log: a span for its life,
// one for each attempt, and one for each phase in which it waited. The ids of spans follow from the
// task and the epoch, so every component makes the same span, while it happens or years later. That
// file, spans.go, is pure, sends nothing, and does not use OpenTelemetry's library.
package observe
