package embed

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"millrace/events/jet"
	"millrace/events/jet/streams"
	"millrace/internal/testkit"
)

func TestMain(m *testing.M) {
	testkit.AtOnce(10) // they wait for servers
	goleak.VerifyTestMain(leaving{testkit.Thrifty(m)})
}

// leaving runs tests, of which one may leave a NATS server behind that only the end of its process
// ends.
type leaving struct{ goleak.TestingM }

// hangs tells that there is such a server. Only a test in a process of its own sets it.
var hangs bool

func (l leaving) Run() int {
	code := l.TestingM.Run()
	if hangs {
		os.Exit(code)
	}
	return code
}

// patience is how long a test waits for what must come; only a failure takes that long.
const patience = time.Minute

// within returns a context that ends when something that must come has not.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func must[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// startServer starts a server that stops with the test.
func startServer(t testing.TB, cfg Config) *Server {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	s := must(Start(cfg))(t)
	t.Cleanup(func() { stopServer(t, s) })
	return s
}

// stopServer stops a server once its streams source each other; a stopped one is left alone. A
// server that stops while it asks for a source leaves a goroutine behind, which waits some seconds
// more for the answer.
func stopServer(t testing.TB, s *Server) {
	t.Helper()
	defer s.Stop()
	nc, err := s.Connect()
	if err != nil {
		return // it was stopped
	}
	defer nc.Close()
	js := must(jetstream.New(nc))(t)
	testkit.Eventually(t, "each stream of the server hears its sources", func() bool {
		all := js.ListStreams(within(t))
		hears := true
		for info := range all.Info() {
			for _, source := range info.Sources {
				hears = hears && source.Active >= 0
			}
		}
		return hears && all.Err() == nil
	})
}

// connect returns a connection over TCP, as a worker has.
func connect(t testing.TB, url string) *nats.Conn {
	t.Helper()
	nc := must(nats.Connect(url, jet.Resilient(t.Name(), slog.New(slog.DiscardHandler))...))(t)
	t.Cleanup(nc.Close)
	return nc
}

// openStore opens a store that closes with the test.
func openStore(t testing.TB, nc *nats.Conn) *jet.Store {
	t.Helper()
	s := must(jet.Open(within(t), nc, streams.Layout{AckWait: time.Second}))(t)
	t.Cleanup(s.Close)
	return s
}
