package observe

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"millrace/events"
	"millrace/task"
	"millrace/task/job"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const (
	id          = task.ID("01JNAT00000000000000000001")
	parentOfAll = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
)

// Spans are off unless a variable asks for them, and unsupported settings are refused.
func TestWanted(t *testing.T) {
	t.Parallel()
	for env, want := range map[string]string{
		"":                                     "off",
		"OTEL_SERVICE_NAME=x":                  "off",
		"OTEL_EXPORTER_OTLP_ENDPOINT=x":        "on",
		"OTEL_TRACES_EXPORTER=otlp":            "on",
		"OTEL_TRACES_EXPORTER=none":            "off",
		"OTEL_TRACES_EXPORTER=jaeger":          "want otlp or none",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=x": "on",
		"OTEL_EXPORTER_OTLP_ENDPOINT=x OTEL_SDK_DISABLED=true":                                                        "off",
		"OTEL_EXPORTER_OTLP_ENDPOINT=x OTEL_TRACES_EXPORTER=none":                                                     "off",
		"OTEL_EXPORTER_OTLP_ENDPOINT=x OTEL_EXPORTER_OTLP_PROTOCOL=grpc":                                              "want http/protobuf, which collectors take on port 4318",
		"OTEL_EXPORTER_OTLP_ENDPOINT=x OTEL_EXPORTER_OTLP_PROTOCOL=http/json":                                         "want http/protobuf, which collectors take on port 4318",
		"OTEL_EXPORTER_OTLP_ENDPOINT=x OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf":                                     "on",
		"OTEL_EXPORTER_OTLP_ENDPOINT=x OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=grpc":                                       "want http/protobuf",
		"OTEL_EXPORTER_OTLP_ENDPOINT=y OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=grpc":                                       "write OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf, and an endpoint such as http://localhost:4318",
		"OTEL_TRACES_EXPORTER=otlp OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf OTEL_EXPORTER_OTLP_PROTOCOL=grpc": "on",
	} {
		on, err := Wanted(envOf(env))
		got := map[bool]string{true: "on", false: "off"}[on]
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", env, got, want)
		}
	}
}

// spanCollector stores what is sent to it.
type spanCollector struct {
	mu    sync.Mutex
	spans []*tracepb.Span
	from  []string
}

func (c *spanCollector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	var sent tracepb.TracesData
	if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(text, &sent) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.store(&sent)
}

func (c *spanCollector) store(sent *tracepb.TracesData) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range sent.ResourceSpans {
		for _, a := range of.Resource.Attributes {
			if a.Key == "service.name" {
				c.from = append(c.from, a.Value.GetStringValue())
			}
		}
		for _, s := range of.ScopeSpans {
			c.spans = append(c.spans, s.Spans...)
		}
	}
}

// history is the log of a task that ran once and failed.
func history(context.Context, task.ID) (records []events.Record, err error) {
	for i, e := range []task.Event{
		task.Submitted{Work: task.Work{Spec: &job.Spec{Handler: "work"}, Route: "default.5", Trace: parentOfAll}},
		task.AttemptStarted{Attempt: 1, Node: "n", Session: "s", Offer: 1},
		task.AttemptFailed{Attempt: 1, Epoch: 2, Class: "exit", Message: "no"},
	} {
		kind := events.KindChain
		if i == 0 {
			kind = events.KindOffer
		}
		records = append(records, events.Record{Seq: uint64(i + 1), Kind: kind, Fact: events.Fact{Task: id, At: noon.Add(time.Duration(i) * time.Second), Event: e}})
	}
	return records, nil
}

func running(ctx context.Context) *task.Task {
	k := &task.Task{ID: id}
	records, _ := history(ctx, id)
	for i := range records[:2] {
		k.Apply(records[i].Task())
	}
	return k
}

// A collector gets a worker's spans of attempts, and a server's spans of ended tasks: one trace
// below the submitter's span, with no span twice.
func TestSpansAreSent(t *testing.T) {
	c := &spanCollector{}
	s := httptest.NewServer(c)
	defer s.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", s.URL)
	ctx := t.Context()

	w, err := Start(ctx, Config{Version: "1"})
	if err != nil {
		t.Fatal(err)
	}
	inside, span := w.Attempt(ctx, running(ctx), id)
	if p, _ := Parse(span.Traceparent()); trace.TraceID(p.Trace) != trace.SpanContextFromContext(inside).TraceID() || trace.SpanID(p.Span) != trace.SpanContextFromContext(inside).SpanID() {
		t.Errorf("a handler is in %v, and a program is told %s", trace.SpanContextFromContext(inside), span.Traceparent())
	}
	span.End(noon.Add(2*time.Second), "exit", "no")
	if err := w.Close(ctx); err != nil {
		t.Fatal(err)
	}

	server, err := Start(ctx, Config{Version: "1"})
	if err != nil {
		t.Fatal(err)
	}
	f := NewFollower(Following{Tracer: server, After: 1, History: history, First: func(string) bool { return true }, Now: func() time.Time { return noon }, Log: slog.New(slog.DiscardHandler)})
	ends := events.Step{Record: &events.Record{Seq: 3, Fact: events.Fact{Task: id}}, Is: events.Glance{Course: task.Course{State: task.Error}}}
	old, lives := ends, ends
	old.Record = &events.Record{Seq: 1, Fact: events.Fact{Task: id}}
	lives.Is.State = task.Running
	f.Observe([]events.Step{old, lives, ends})
	if len(f.ended) != 1 {
		t.Fatalf("%d tasks have ended, want one", len(f.ended))
	}
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- f.Run(running) }()
	for len(c.names()) < 3 {
		if err := server.provider.ForceFlush(ctx); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := server.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if got := c.names(); !slices.Equal(got, []string{"attempt 1", "pending", "work"}) {
		t.Errorf("sent were %v", got)
	}
	if len(c.from) < 2 || len(slices.Compact(c.from)) != 1 || c.from[0] != "millrace" {
		t.Errorf("sent by %v", c.from)
	}
	parent, _ := Parse(parentOfAll)
	own := map[string]bool{string(parent.Span[:]): true}
	for _, s := range c.spans {
		own[string(s.SpanId)] = true
	}
	for _, s := range c.spans {
		if string(s.TraceId) != string(parent.Trace[:]) || !own[string(s.ParentSpanId)] {
			t.Errorf("%s is not in the trace", s.Name)
		}
		if failed := s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR; failed == (s.Name == "pending") {
			t.Errorf("%s: %v", s.Name, s.Status)
		}
	}
}

func (c *spanCollector) names() (all []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		all = append(all, s.Name)
	}
	slices.Sort(all)
	return all
}

// Deliver sends more spans than the library's queue holds, and returns the collector's refusal.
func TestDelivered(t *testing.T) {
	c := &spanCollector{}
	s := httptest.NewServer(c)
	defer s.Close()
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer refuses.Close()
	few, err := Past(t.Context(), history, id, noon)
	if err != nil {
		t.Fatal(err)
	}
	var many []Span
	for len(many) < 5000 {
		many = append(many, few...)
	}
	if sent, err := Deliver(t.Context(), Config{}, few); sent || err != nil {
		t.Errorf("no variable asks for spans: %v, %v", sent, err)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", s.URL)
	if sent, err := Deliver(t.Context(), Config{}, many); !sent || err != nil || len(c.names()) != len(many) {
		t.Errorf("%v, %v: %d spans came, of %d", sent, err, len(c.names()), len(many))
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", refuses.URL)
	if _, err := Deliver(t.Context(), Config{}, few); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("the collector refuses them: %v", err)
	}
}

// The past is written in the form that collectors read: ids in hexadecimal, times in nanoseconds.
func TestJSON(t *testing.T) {
	t.Parallel()
	list, err := Past(t.Context(), history, id, noon)
	if err != nil {
		t.Fatal(err)
	}
	text, err := JSON(t.Context(), Config{Version: "1"}, list)
	if err != nil {
		t.Fatal(err)
	}
	var data struct {
		ResourceSpans []struct {
			ScopeSpans []struct {
				Spans []struct{ TraceID, SpanID, ParentSpanID, Name, StartTimeUnixNano string }
			}
		}
	}
	if err := json.Unmarshal(text, &data); err != nil || len(data.ResourceSpans) != 1 || len(data.ResourceSpans[0].ScopeSpans[0].Spans) != 3 {
		t.Fatalf("%v\n%s", err, text)
	}
	first := data.ResourceSpans[0].ScopeSpans[0].Spans[0]
	if first.TraceID != parentOfAll[3:35] || first.ParentSpanID != parentOfAll[36:52] || first.Name != "work" || first.StartTimeUnixNano != "1772366400000000000" || len(first.SpanID) != 16 {
		t.Errorf("%+v", first)
	}
}

// Without tracing there is no cost.
func TestNilTracerSendsNothing(t *testing.T) {
	t.Parallel()
	var none *Tracer
	none.Send(t.Context(), []Span{{}})
	if err := none.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// Spans go where the variables say, as they say, and a wrong one is refused without its value, which may
// be secret.
func TestDestination(t *testing.T) {
	t.Parallel()
	for env, want := range map[string]string{
		"":                                       "http://localhost:4318/v1/traces",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:1": "http://c:1/v1/traces",
		"OTEL_EXPORTER_OTLP_ENDPOINT=https://c/below/":                                       "https://c/below/v1/traces",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://c:1":                                      "http://c:1/",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://c:1/as":                                   "http://c:1/as",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://c OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://d/x": "http://d/x",
		"OTEL_EXPORTER_OTLP_ENDPOINT=grpc://c:4317":                                          "$OTEL_EXPORTER_OTLP_ENDPOINT is no address of HTTP: write one such as http://localhost:4318",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=localhost:4317":                                  "$OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is no address of HTTP: write one such as http://localhost:4318",
		"OTEL_EXPORTER_OTLP_HEADERS=secret":                                                  "$OTEL_EXPORTER_OTLP_HEADERS is not of the form name=value,name=value",
		"OTEL_EXPORTER_OTLP_TIMEOUT=10s":                                                     `$OTEL_EXPORTER_OTLP_TIMEOUT is "10s", want milliseconds`,
		"OTEL_EXPORTER_OTLP_CERTIFICATE=/none":                                               "$OTEL_EXPORTER_OTLP_CERTIFICATE: open /none: no such file or directory",
		"OTEL_EXPORTER_OTLP_CLIENT_KEY=/none":                                                "$OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and _CLIENT_KEY: open : no such file or directory",
	} {
		s, err := newSender(envOf(env))
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = s.to
		}
		if got != want {
			t.Errorf("%s: %s, want %s", env, got, want)
		}
	}
}

func envOf(text string) func(name string) string {
	return func(name string) string {
		for _, v := range strings.Fields(text) {
			if n, value, _ := strings.Cut(v, "="); n == name {
				return value
			}
		}
		return ""
	}
}

// A batch comes with the headers, compressed; it comes again if the collector is overloaded, and what
// the collector refuses of it is an error.
func TestUploaded(t *testing.T) {
	t.Parallel()
	var asked int
	c := &spanCollector{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		text, err := gzip.NewReader(r.Body)
		if err != nil || r.Header.Get("Content-Encoding") != "gzip" || r.Header.Get("Authorization") != "Bearer a,b" || r.Header.Get("X") != "y" {
			t.Errorf("%v: %v", err, r.Header)
			return
		}
		r.Body = text
		w.Header().Set("Content-Type", "application/x-protobuf")
		if c.ServeHTTP(w, r); asked == 3 {
			_, _ = w.Write(append([]byte{0x10, 1, 0x0a, 8, 0x08, 2, 0x12, 4}, "full"...))
		}
	}))
	defer s.Close()
	to, err := newSender(envOf("OTEL_EXPORTER_OTLP_ENDPOINT=" + s.URL + " OTEL_EXPORTER_OTLP_HEADERS=Authorization=Bearer%20a%2Cb,X=y OTEL_EXPORTER_OTLP_TRACES_COMPRESSION=gzip"))
	if err != nil {
		t.Fatal(err)
	}
	to.firstWait = time.Millisecond
	batch := []*tracepb.ResourceSpans{{Resource: &resourcepb.Resource{}, ScopeSpans: []*tracepb.ScopeSpans{{Spans: []*tracepb.Span{{Name: "one"}}}}}}
	if err := to.UploadTraces(t.Context(), batch); err != nil || asked != 2 || !slices.Equal(c.names(), []string{"one"}) {
		t.Errorf("%v, asked %d times: %v", err, asked, c.names())
	}
	if err := to.UploadTraces(t.Context(), batch); err == nil || err.Error() != "the collector has refused 2 spans: full" {
		t.Error(err)
	}
}
