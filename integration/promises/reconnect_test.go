package promises

import (
	"context"
	"errors"
	"flag"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"millrace/events"
	"millrace/events/jet"
	jetnames "millrace/events/jet/names"
	"millrace/events/jet/streams"
	"millrace/integration/harness"
	"millrace/internal/testkit"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/worker"
)

var reconnects = flag.Int("reconnects", 60, "how often TestReconnects cuts the connection")

// A connection that is cut again and again leaves no lasting cost, and the node is ready again soon
// each time: goroutines, consumers and memory stay flat, and running tasks continue.
func TestReconnects(t *testing.T) {
	// The server is a process of its own, because it remembers messages and closed connections, and
	// this test is about what a node leaves behind.
	p := harness.New(t, time.Minute)
	p.Let("MILLRACE_FLAP_LIMIT", "0")
	server := p.Server("--metrics", "127.0.0.1:0")
	starved := testkit.Starvation(t)
	open := func() (*jet.Store, *nats.Conn) {
		nc, err := nats.Connect(p.URL, jet.Resilient(t.Name(), slog.New(slog.DiscardHandler))...)
		if err != nil {
			t.Fatal(err)
		}
		s, err := jet.Open(t.Context(), nc, streams.Layout{AckWait: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close(); nc.Close() })
		return s, nc
	}
	store, shaky := open()
	looking, _ := open()

	ctx, stop := context.WithCancel(t.Context())
	proceed, gone := make(chan struct{}), make(chan error, 2)
	w, err := worker.New(worker.Ports{Log: store, Offers: store, Nodes: store, Outputs: store}, worker.Config{
		Node: "shaky", Slots: 2, Beat: time.Second, NodeTTL: 10 * time.Second, Flap: node.FlapPolicy{Limit: -1},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Handle("stays", func(ctx context.Context, _ task.Task) error {
		select {
		case <-proceed:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	go func() { gone <- w.Run(ctx) }()
	// A scheduler's watch is cut along with it.
	relisted := make(chan struct{}, 1)
	go func() {
		gone <- store.WatchBeats(ctx, func(node.ID, time.Time) {}, func() {
			select {
			case relisted <- struct{}{}:
			default:
			}
		})
	}()
	feed, err := looking.Follow(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	patient, cancel := context.WithTimeout(t.Context(), harness.Patience+time.Duration(*reconnects)*time.Second)
	defer cancel()
	// ready waits until the node has proved a connection.
	ready := func(connection uint64) node.BecameReady {
		for {
			records, err := feed.Next(patient)
			if err != nil {
				t.Fatalf("waiting for connection %d to be ready: %v", connection, err)
			}
			for _, r := range records {
				if e, ok := r.Fact.Event.(node.BecameReady); ok && e.Connection >= connection {
					return e
				}
			}
		}
	}
	ready(1)
	rec := &events.Recorder{Log: looking, Actor: "test", Now: time.Now, NewID: events.NewID}
	id := task.ID(events.NewID(time.Now()))
	if _, err := rec.Submit(t.Context(), id, task.Submitted{Work: task.Work{Spec: &job.Spec{Handler: "stays"}, Route: placement.NodeRoute("shaky", 5)}}); err != nil {
		t.Fatal(err)
	}
	if !harness.Poll(harness.Patience, func() bool { now, err := rec.Load(t.Context(), id); return err == nil && now.State == task.Running }) {
		t.Fatal("the task does not start")
	}

	var took []time.Duration
	var early, late usage
	for i := range *reconnects {
		if err := shaky.ForceReconnect(); err != nil {
			t.Fatal(err)
		}
		e := ready(uint64(i + 2))
		if e.Kept != 1 || e.Stopped != 0 {
			t.Fatalf("connection %d: %d attempts kept, %d stopped, want one kept", e.Connection, e.Kept, e.Stopped)
		}
		took = append(took, e.Took.Std())
		<-relisted
		if i == *reconnects/3 {
			early = measure(t, shaky, server)
		}
	}
	const busy = 20 // it has some for each request that it is answering, and for each cut connection
	harness.Poll(harness.Patience/2, func() bool {
		late = measure(t, shaky, server)
		return late.server <= early.server+busy
	})

	slices.Sort(took)
	p99 := took[len(took)*99/100]
	t.Logf("%d reconnects: from the connection to ready p50 %v, p99 %v, worst %v", len(took), took[len(took)/2], p99, took[len(took)-1])
	t.Logf("after a third: %+v; at the end: %+v", early, late)
	// Both ends of the connection, and what proves it, wait for the processors in turn.
	const hands = 4
	if most := time.Second + hands*starved(); p99 > most {
		t.Errorf("p99 is %v, want less than a second, %v with what this machine withheld", p99, most)
	}
	if late.goroutines > early.goroutines+5 || late.consumers > early.consumers || late.heap > early.heap+8<<20 || late.subscriptions > early.subscriptions+5 ||
		late.server > early.server+busy {
		t.Errorf("something stays behind: %+v after a third, %+v at the end", early, late)
	}
	close(proceed)
	if !harness.Poll(harness.Patience, func() bool {
		now, err := rec.Load(t.Context(), id)
		return err == nil && now.State == task.Finished && now.Attempt == 1
	}) {
		t.Error("the task that ran all the while does not finish on its first attempt")
	}
	stop()
	defer server.Stop()
	for range 2 {
		if err := <-gone; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

// usage is what a process and its server hold.
type usage struct {
	goroutines, consumers, subscriptions int
	server                               int // goroutines of the server's process
	heap                                 uint64
}

// goroutinesOf is how many goroutines a process has, by its metrics.
func goroutinesOf(t *testing.T, s *harness.Process) int {
	t.Helper()
	at := served.FindStringSubmatch(s.Said.String())
	if at == nil {
		t.Fatalf("the server does not say where its metrics are:\n%s", s.Said.String())
	}
	answer, err := http.Get(at[1])
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	count := goroutines.FindSubmatch(text)
	if count == nil {
		t.Fatalf("%s has no go_goroutines", at[1])
	}
	n, err := strconv.Atoi(string(count[1]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

var (
	served     = regexp.MustCompile(`"url":"([^"]*)"[^\n]*metrics are served`)
	goroutines = regexp.MustCompile(`(?m)^go_goroutines (\d+)`)
)

func measure(t *testing.T, nc *nats.Conn, server *harness.Process) usage {
	t.Helper()
	var u usage
	js, err := nc.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	// The server removes what a cut connection left at its own pace.
	settled := func() bool {
		u.consumers = 0
		for _, stream := range []string{jetnames.LogStream, "KV_" + jetnames.NodesBucket} {
			for range js.ConsumerNames(stream) {
				u.consumers++
			}
		}
		return u.consumers <= 7 // of the queue, the node, the schedules, and a feed and a watch each of this process and the server
	}
	harness.Poll(harness.Patience/4, settled)
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u.goroutines, u.heap = runtime.NumGoroutine(), m.HeapAlloc
	u.subscriptions = nc.NumSubscriptions()
	u.server = goroutinesOf(t, server)
	return u
}
