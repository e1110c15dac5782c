package observe

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"millrace/internal/metrics"
)

// serve runs a monitor with the additions of add until the test ends.
func serve(t *testing.T, add func(*Monitor)) *Monitor {
	t.Helper()
	m, err := Listen(t.Context(), "127.0.0.1:0", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	add(m)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("it ended with %v", err)
		}
	})
	return m
}

func get(t *testing.T, url string) (code int, body string) {
	t.Helper()
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}
	r, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(text)
}

func TestHealth(t *testing.T) {
	var live, ready error
	m := serve(t, func(m *Monitor) {
		m.Expect(
			Check{Name: "link", Live: true, Ask: func(time.Time) error { return live }},
			Check{Name: "work", Ask: func(time.Time) error { return ready }})
	})
	at := func(path string) string { return strings.Replace(m.URL(), "/metrics", path, 1) }
	for _, c := range []struct {
		live, ready error
		path        string
		code        int
		body        string
	}{
		{nil, nil, "/healthz", 200, "link: ok\n"},
		{nil, nil, "/readyz", 200, "link: ok\nwork: ok\n"},
		{nil, errors.New("none yet"), "/healthz", 200, "link: ok\n"},
		{nil, errors.New("none yet"), "/readyz", 503, "link: ok\nwork: none yet\n"},
		{errors.New("down"), nil, "/healthz", 503, "link: down\n"},
		{errors.New("down"), nil, "/readyz", 503, "link: down\nwork: ok\n"},
	} {
		live, ready = c.live, c.ready
		if code, body := get(t, at(c.path)); code != c.code || body != c.body {
			t.Errorf("%s with %v and %v: %d %q, want %d %q", c.path, c.live, c.ready, code, body, c.code, c.body)
		}
	}
	if code, body := get(t, at("/")); code != 200 || !strings.Contains(body, "/readyz") {
		t.Errorf("the root answers %d, %q", code, body)
	}
	if code, _ := get(t, at("/elsewhere")); code != 404 {
		t.Errorf("a path that is not there answers %d", code)
	}
	if r, err := http.Post(m.URL(), "text/plain", strings.NewReader("x")); err != nil || r.StatusCode != 405 {
		t.Errorf("a POST gets %v, %v", r, err)
	} else {
		r.Body.Close()
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestAddressTaken(t *testing.T) {
	m := serve(t, func(*Monitor) {})
	taken := strings.TrimSuffix(strings.TrimPrefix(m.URL(), "http://"), "/metrics")
	if _, err := Listen(t.Context(), taken, slog.New(slog.DiscardHandler)); !errors.Is(err, ErrAddress) {
		t.Errorf("listening there again: %v", err)
	}
	if m.Exposed() {
		t.Errorf("%s counts as exposed", m.URL())
	}
	wide, err := Listen(t.Context(), ":0", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer wide.Close()
	if !wide.Exposed() {
		t.Errorf("%s does not count as exposed", wide.URL())
	}
}

// A failing source hides no other.
func TestFailureIsCounted(t *testing.T) {
	m := serve(t, func(m *Monitor) {
		m.Add(Build{Role: "test"})
		m.Failed("tasks")
	})
	_, body := get(t, m.URL())
	for _, want := range []string{
		`millrace_monitor_failures_total{source="tasks"} 1`, `role="test"`, "go_goroutines", "process_resident_memory_bytes",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("there is no %s in\n%s", want, body)
		}
	}
}

// all emits one series of every family.
type all struct{}

func (all) Collect(emit metrics.Emit) {
	for _, f := range metrics.Families {
		labels := make([]string, len(f.Labels))
		emit(f, 1, &metrics.Histogram{Bounds: []float64{1}, Counts: []uint64{1, 2}, Sum: 7}, labels...)
	}
}

// The names and units pass Prometheus's own linter.
func TestNames(t *testing.T) {
	r := newRegistry([]metrics.Source{all{}})
	problems, err := testutil.GatherAndLint(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	names := map[string]bool{}
	for _, f := range metrics.Families {
		if names[f.Name] {
			t.Errorf("%s is there twice", f.Name)
		}
		names[f.Name] = true
	}
	gathered, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range gathered {
		delete(names, f.GetName())
		if h := f.GetMetric()[0].GetHistogram(); h != nil && strings.HasPrefix(f.GetName(), "millrace_") && (h.GetSampleCount() != 3 || h.GetBucket()[0].GetCumulativeCount() != 1 || h.GetSampleSum() != 7) {
			t.Errorf("%s is given as %v", f.GetName(), h)
		}
	}
	if len(names) > 0 {
		t.Errorf("not given: %v", names)
	}
}
