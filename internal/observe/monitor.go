package observe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"millrace/internal/metrics"
)

// Check is a health check of one part; its error explains the fault.
type Check struct {
	// Name names the part, in a word or two.
	Name string
	// Live says that the process counts as dead while this fails, and not only as not ready.
	Live bool
	Ask  func(now time.Time) error
}

// Monitor serves the figures and the health of one process. Create it with [Listen], add sources
// and checks, then Run it once.
type Monitor struct {
	listener net.Listener
	log      *slog.Logger

	mu      sync.Mutex
	sources []metrics.Source // guarded by mu
	checks  []Check          // guarded by mu
	failed  *failures
}

// ErrAddress means that the address cannot be listened on: another process does, or it is not an
// address of this machine.
var ErrAddress = errors.New("metrics cannot be served there")

// Listen listens on the address host:port. An empty host means all of the machine's addresses, and
// port 0 a free one. Requests are answered once [Monitor.Run] runs. The error wraps [ErrAddress].
func Listen(ctx context.Context, address string, log *slog.Logger) (*Monitor, error) {
	var c net.ListenConfig
	l, err := c.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAddress, err)
	}
	m := &Monitor{listener: l, log: log, failed: newFailures()}
	m.Add(m.failed)
	return m, nil
}

// URL is the address of the figures.
func (m *Monitor) URL() string { return "http://" + m.listener.Addr().String() + "/metrics" }

// Exposed tells whether processes of other machines can reach it.
func (m *Monitor) Exposed() bool {
	a, ok := m.listener.Addr().(*net.TCPAddr)
	return !ok || !a.IP.IsLoopback()
}

// Add adds sources of figures. Call it before Run only.
func (m *Monitor) Add(sources ...metrics.Source) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sources = append(m.sources, sources...)
}

// Expect adds checks, which run on every request for health.
func (m *Monitor) Expect(checks ...Check) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.checks = append(m.checks, checks...)
}

// Failed counts a failed read of the named source, whose figures are then missing or old.
func (m *Monitor) Failed(source string) { m.failed.add(source) }

// Close releases the address. Run does it, too.
func (m *Monitor) Close() { _ = m.listener.Close() } // an error has no consequence here

// Bounds of requests. No client needs more at once.
const (
	headerTimeout = 5 * time.Second
	answerTimeout = 15 * time.Second
	maxAtOnce     = 4
)

// Run answers requests until ctx ends, and then returns nil.
func (m *Monitor) Run(ctx context.Context) error {
	server := &http.Server{
		Handler:           m.handler(),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       headerTimeout,
		WriteTimeout:      2 * answerTimeout,
		IdleTimeout:       time.Minute,
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(m.listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve metrics: %w", err)
	case <-ctx.Done():
	}
	_ = server.Close() // clients can ask again
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return nil
}

func (m *Monitor) handler() http.Handler {
	m.mu.Lock()
	sources := m.sources
	m.mu.Unlock()
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(newRegistry(sources), promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, ErrorLog: complaints{m.log}, MaxRequestsInFlight: maxAtOnce, Timeout: answerTimeout,
	}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { m.answer(w, true) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { m.answer(w, false) })
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, index) })
	return mux
}

// index is the answer at the root of the address.
const index = `Millrace: metrics and health of this process.

/metrics   figures for Prometheus
/healthz   whether it lives
/readyz    whether it does its work, with a line for each part
`

// complaints logs the errors of Prometheus's own handler.
type complaints struct{ log *slog.Logger }

func (c complaints) Println(v ...any) {
	c.log.Warn("metrics are incomplete: " + strings.TrimSpace(fmt.Sprintln(v...)))
}

// answer writes the results of the checks: 200 if all pass, else 503, with a line for each.
func (m *Monitor) answer(w http.ResponseWriter, live bool) {
	m.mu.Lock()
	checks := m.checks
	m.mu.Unlock()
	now := time.Now()
	code := http.StatusOK
	var text strings.Builder
	for _, c := range checks {
		if live && !c.Live {
			continue
		}
		word := "ok"
		if err := c.Ask(now); err != nil {
			code, word = http.StatusServiceUnavailable, err.Error()
		}
		fmt.Fprintf(&text, "%s: %s\n", c.Name, word)
	}
	if text.Len() == 0 {
		text.WriteString("ok\n")
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text.String())) // the client may have left
}

// failures counts failed reads by source.
type failures struct {
	mu sync.Mutex
	n  map[string]uint64 // guarded by mu
}

func newFailures() *failures { return &failures{n: map[string]uint64{}} }

func (f *failures) add(source string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n[source]++
}

func (f *failures) Collect(emit metrics.Emit) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for source, n := range f.n {
		emit(metrics.MonitorFailures, float64(n), nil, source)
	}
}
