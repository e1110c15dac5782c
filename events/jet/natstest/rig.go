package natstest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"millrace/events"
	"millrace/events/jet/embed"
	"millrace/internal/files"
	"millrace/internal/testkit"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/placement"
	"millrace/task/value"
)

// Main runs the tests of a package, and exits.
func Main(m *testing.M) {
	testkit.AtOnce(14) // most wait for leases, timers and elections
	code := testkit.Thrifty(m).Run()
	if code == 0 {
		code = leaks()
	}
	os.Exit(code)
}

// lastWords is how long a stopped NATS server may keep goroutines: one that is asking for a source
// waits 30 s for the answer.
const lastWords = 45 * time.Second

// leaks returns 1 if goroutines are left that do not end, else 0.
func leaks() int {
	// nats.go leaves it if it writes an object faster than this goroutine of its own begins: it then waits on what the
	// end has set to nil. Connections that are not closed are found by their others.
	written := goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect")
	for began := time.Now(); ; {
		err := goleak.Find(written)
		if err == nil {
			return 0
		}
		if time.Since(began) > lastWords {
			fmt.Fprintln(os.Stderr, "goroutines are left:", err)
			return 1
		}
	}
}

// Patience is how long a test waits for what must come; only a failure takes that long.
const Patience = 3 * time.Minute

// Within returns a context that ends after Patience.
func Within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	t.Cleanup(cancel)
	return ctx
}

// Must returns the value of a call, and ends the test if it returned an error.
func Must[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// StartServer starts a server that stops with the test.
func StartServer(t testing.TB, cfg embed.Config) *embed.Server {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	s, err := embed.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { StopServer(t, s) })
	return s
}

// StopServer stops a server once its streams source each other; a stopped one is left alone. A
// server that stops while it asks for a source leaves a goroutine behind, which waits some seconds
// more for the answer.
func StopServer(t testing.TB, s *embed.Server) {
	t.Helper()
	defer s.Stop()
	nc, err := s.Connect()
	if err != nil {
		return // it was stopped
	}
	defer nc.Close()
	js := Must(jetstream.New(nc))(t)
	testkit.Eventually(t, "each stream of the server hears its sources", func() bool {
		all := js.ListStreams(Within(t))
		hears := true
		for info := range all.Info() {
			for _, source := range info.Sources {
				hears = hears && source.Active >= 0
			}
		}
		return hears && all.Err() == nil
	})
}

// Connect returns a connection over TCP, which closes with the test.
func Connect(t testing.TB, url string, opts ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

var ids atomic.Uint64

// NewID returns a ULID that is unique within the package's tests.
func NewID() string { return fmt.Sprintf("01JNA0%020d", ids.Add(1)) }

// NewTask is [NewID] for tasks.
func NewTask() task.ID { return task.ID(NewID()) }

// NewFact returns a fact of a task, of now.
func NewFact(id task.ID, e task.Event) *events.Fact {
	return &events.Fact{ID: NewID(), At: time.Now().UTC(), Type: events.TypeOf(e), Task: id, Actor: "test", Event: e}
}

// Work is the work of a task that does nothing, on a queue.
func Work(queue string) task.Work {
	return task.Work{Spec: &job.Spec{Handler: "noop"}, Route: placement.QueueRoute(queue, placement.DefaultPriority)}
}

// Note is an event that any chain takes.
func Note(text string) task.Event { return task.GivenUp{Reason: value.Expired, Detail: text} }

// Raw stores a message as a client would that knows nothing of facts.
func Raw(t testing.TB, js jetstream.JetStream, subject string, header nats.Header, body []byte) uint64 {
	t.Helper()
	ack, err := js.PublishMsg(Within(t), &nats.Msg{Subject: subject, Header: header, Data: body})
	if err != nil {
		t.Fatalf("publish to %s: %v", subject, err)
	}
	return ack.Sequence
}

// Pushed pushes a folder with some files and returns their version.
func Pushed(t testing.TB, s files.Store, contents ...string) *files.Tree {
	t.Helper()
	dir := t.TempDir()
	for i, c := range contents {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), []byte(c), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root := Must(os.OpenRoot(dir))(t)
	defer root.Close()
	scanned := Must(files.Scan(t.Context(), root, files.Options{}))(t)
	Must(files.Push(Within(t), s, root, scanned, "ada", time.Now(), nil))(t)
	return scanned
}
