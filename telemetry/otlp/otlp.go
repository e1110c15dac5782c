// Package otlp connects to collectors of OpenTelemetry. It is apart from package telemetry because
// of what the connection brings along: programs that only make spans do not link it.
package otlp

import (
	"context"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// New returns a sender to the collector in the environment, over HTTP. It connects when it first
// sends. It is a telemetry.Exporter.
func New(ctx context.Context) (sdktrace.SpanExporter, error) { return otlptracehttp.New(ctx) }
