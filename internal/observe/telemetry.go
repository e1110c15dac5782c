package observe

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"millrace/task"
	"millrace/worker"
)

// Config describes the sender.
type Config struct {
	// Version is the version of the program.
	Version string
	// Log gets failures to send. Default: none.
	Log *slog.Logger
}

// endpoints are the variables with the destination.
var endpoints = []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"}

// Wanted tells whether the environment asks for spans, and refuses settings that this program does
// not support.
func Wanted(env func(string) string) (bool, error) {
	exporter := env("OTEL_TRACES_EXPORTER")
	switch asked := slices.ContainsFunc(endpoints, func(name string) bool { return env(name) != "" }); {
	case strings.EqualFold(env("OTEL_SDK_DISABLED"), "true"), exporter == "none", exporter == "" && !asked:
		return false, nil
	case exporter != "" && exporter != "otlp":
		return false, fmt.Errorf("$OTEL_TRACES_EXPORTER is %q, want otlp or none", exporter)
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		switch p := env(name); p {
		case "":
		case protocol:
			return true, nil
		default:
			return false, fmt.Errorf("$%s is %q, want %s, which collectors take on port 4318: write %[1]s=%[3]s, and an endpoint such as http://localhost:4318", name, p, protocol)
		}
	}
	return true, nil
}

// protocol is the one that this program speaks, by its name in the OpenTelemetry specification.
const protocol = "http/protobuf"

// Tracer sends spans. A nil tracer sends none.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

func sender(ctx context.Context) (sdktrace.SpanExporter, error) {
	to, err := newSender(os.Getenv)
	if err != nil {
		return nil, err
	}
	return otlptrace.New(ctx, to)
}

// Start returns a tracer if the environment asks for one, else nil.
func Start(ctx context.Context, c Config) (*Tracer, error) {
	wanted, err := Wanted(os.Getenv)
	if err != nil || !wanted {
		return nil, err
	}
	sender, err := sender(ctx)
	if err != nil {
		return nil, err
	}
	if c.Log != nil {
		var told sync.Once
		otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
			told.Do(func() {
				c.Log.Warn("spans could not be sent; tasks are not touched by that, and it is not told again", "error", err)
			})
		}))
	}
	return start(ctx, c, sdktrace.WithBatcher(sender))
}

// Deliver sends all of the spans, which have ended, or returns an error. It returns false if the
// environment asks for no spans.
func Deliver(ctx context.Context, c Config, list []Span) (bool, error) {
	wanted, err := Wanted(os.Getenv)
	if err != nil || !wanted {
		return false, err
	}
	sender, err := sender(ctx)
	if err != nil {
		return false, err
	}
	to := &strict{SpanExporter: sender}
	t, err := start(ctx, c, sdktrace.WithBatcher(to, sdktrace.WithBlocking()))
	if err != nil {
		return false, err
	}
	t.Send(ctx, list)
	if err := t.Close(ctx); err != nil { // it may still be sending
		return true, err
	}
	return true, to.failed
}

// strict keeps the first error of an exporter. The library itself passes errors to a handler of
// the whole process, and continues.
type strict struct {
	sdktrace.SpanExporter
	failed error // read when the provider is shut down
}

// ExportSpans implements [sdktrace.SpanExporter]. The library calls it for one batch at a time.
func (s *strict) ExportSpans(ctx context.Context, list []sdktrace.ReadOnlySpan) error {
	if err := s.SpanExporter.ExportSpans(ctx, list); s.failed == nil {
		s.failed = err
	}
	return nil
}

func start(ctx context.Context, c Config, to sdktrace.TracerProviderOption) (*Tracer, error) {
	attributes := []attribute.KeyValue{attribute.String("service.version", c.Version)}
	if os.Getenv("OTEL_SERVICE_NAME") == "" {
		attributes = append(attributes, attribute.String("service.name", "millrace"))
	}
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithHost(), resource.WithAttributes(attributes...), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, err
	}
	p := sdktrace.NewTracerProvider(to, sdktrace.WithResource(about), sdktrace.WithIDGenerator(given{}))
	return &Tracer{provider: p, tracer: p.Tracer("millrace", trace.WithInstrumentationVersion(c.Version))}, nil
}

// Close sends the remaining spans.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// given takes the ids of a span from its context: they follow from the span's subject.
type given struct{}

type givenKey struct{}

func (given) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	c, _ := ctx.Value(givenKey{}).(Context)
	return trace.TraceID(c.Trace), trace.SpanID(c.Span)
}

func (g given) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	_, span := g.NewIDs(ctx)
	return span
}

func spanContext(c Context, span SpanID, remote bool) trace.SpanContext {
	flags := trace.TraceFlags(0)
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID:    trace.TraceID(c.Trace),
		SpanID:     trace.SpanID(span),
		TraceFlags: flags.WithSampled(c.Sampled),
		Remote:     remote,
	})
}

// begin starts a span.
func (t *Tracer) begin(ctx context.Context, s *Span) (context.Context, trace.Span) {
	if s.Parent != (SpanID{}) {
		ctx = trace.ContextWithSpanContext(ctx, spanContext(s.Context, s.Parent, s.Remote))
	} else {
		ctx = trace.ContextWithSpanContext(ctx, trace.SpanContext{})
	}
	options := []trace.SpanStartOption{trace.WithTimestamp(s.From), trace.WithAttributes(attributesOf(s.Attributes)...)}
	for _, l := range s.Links {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: spanContext(l, l.Span, false)}))
	}
	return t.tracer.Start(context.WithValue(ctx, givenKey{}, s.Context), s.Name, options...)
}

func finish(span trace.Span, s *Span) {
	if s.Failed {
		span.SetStatus(codes.Error, s.Why)
	}
	span.End(trace.WithTimestamp(s.To))
}

func attributesOf(list []Attribute) (all []attribute.KeyValue) {
	for _, a := range list {
		switch v := a.Value.(type) {
		case int:
			all = append(all, attribute.Int(a.Key, v))
		default:
			all = append(all, attribute.String(a.Key, fmt.Sprint(v)))
		}
	}
	return all
}

// Send sends spans that have ended.
func (t *Tracer) Send(ctx context.Context, list []Span) {
	if t == nil {
		return
	}
	for i := range list {
		_, span := t.begin(ctx, &list[i])
		finish(span, &list[i])
	}
}

// Attempt begins the span of an attempt. Spans started in the returned context are below it.
func (t *Tracer) Attempt(ctx context.Context, k *task.Task, root task.ID) (context.Context, worker.Span) {
	s := Attempt(k, root, time.Time{})
	ctx, span := t.begin(ctx, &s)
	s.Sampled = span.SpanContext().IsSampled()
	return ctx, &attempt{span, s}
}

// attempt is the span of a running attempt.
type attempt struct {
	span trace.Span
	is   Span
}

// Traceparent is the context for the attempt's program.
func (a *attempt) Traceparent() string { return a.is.Context.String() }

// End ends the span: why is "" if the attempt reached its purpose.
func (a *attempt) End(at time.Time, class, why string) {
	if a.is.To = at; class != "" {
		a.is.Failed, a.is.Why = true, why
		a.span.SetAttributes(attribute.String("millrace.class", class))
	}
	finish(a.span, &a.is)
}

// JSON returns spans in the JSON form of OTLP, which collectors read.
func JSON(ctx context.Context, c Config, list []Span) ([]byte, error) {
	var kept keeper
	exporter, err := otlptrace.New(ctx, &kept)
	if err != nil {
		return nil, err
	}
	t, err := start(ctx, c, sdktrace.WithSyncer(exporter))
	if err != nil {
		return nil, err
	}
	t.Send(ctx, list)
	if err := t.Close(ctx); err != nil {
		return nil, err
	}
	return kept.json()
}

// keeper keeps what an exporter sends.
type keeper struct{ all []*tracepb.ResourceSpans }

func (*keeper) Start(context.Context) error { return nil }
func (*keeper) Stop(context.Context) error  { return nil }
func (k *keeper) UploadTraces(_ context.Context, all []*tracepb.ResourceSpans) error {
	for _, r := range all {
		if n := len(k.all); n > 0 && len(k.all[0].ScopeSpans) > 0 && len(r.ScopeSpans) > 0 { // all are of one process
			k.all[0].ScopeSpans[0].Spans = append(k.all[0].ScopeSpans[0].Spans, r.ScopeSpans[0].Spans...)
			continue
		}
		k.all = append(k.all, r)
	}
	return nil
}

// json writes ids in hexadecimal, as OTLP requires, unlike the encoding of bytes in protocol
// buffers.
func (k *keeper) json() ([]byte, error) {
	text, err := protojson.MarshalOptions{UseEnumNumbers: true}.Marshal(&tracepb.TracesData{ResourceSpans: k.all})
	if err != nil {
		return nil, err
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, err
	}
	hexIDs(tree)
	return json.MarshalIndent(tree, "", "  ")
}

func hexIDs(tree any) {
	switch tree := tree.(type) {
	case []any:
		for _, v := range tree {
			hexIDs(v)
		}
	case map[string]any:
		for name, v := range tree {
			text, ok := v.(string)
			if ok && (name == "traceId" || name == "spanId" || name == "parentSpanId") {
				if id, err := base64.StdEncoding.DecodeString(text); err == nil {
					tree[name] = hex.EncodeToString(id)
				}
				continue
			}
			hexIDs(v)
		}
	}
}
