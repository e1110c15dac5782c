// Package otlp connects to collectors of OpenTelemetry. It is apart from package telemetry because
// of what the connections bring along: programs that only make spans link neither gRPC nor its
// kin.
package otlp

import (
	"context"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// New returns a sender to the collector in the environment, over gRPC or over HTTP. It connects when
// it first sends. It is a telemetry.Exporter.
func New(ctx context.Context, grpc bool) (sdktrace.SpanExporter, error) {
	if grpc {
		return otlptracegrpc.New(ctx)
	}
	return otlptracehttp.New(ctx)
}
