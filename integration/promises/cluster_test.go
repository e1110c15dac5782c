package promises

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"millrace/events"
	"millrace/events/jet"
	"millrace/events/jet/embed"
	jetnames "millrace/events/jet/names"
	"millrace/events/jet/streams"
	"millrace/integration/harness"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/worker"
)

// One of three servers holds the consumer of a node in its memory, and is lost. The node notices
// and has its route again on another server. A task that was put there meanwhile starts, and a
// running one continues as the same attempt.
func TestRouteOutlivesItsServer(t *testing.T) {
	t.Parallel()
	for _, priority := range []int{placement.DefaultPriority, 8} {
		t.Run(fmt.Sprint("priority ", priority), func(t *testing.T) { routeOutlivesItsServer(t, priority) })
	}
}

// routeOutlivesItsServer loses the server that holds the consumer of a node, for tasks of a
// priority.
func routeOutlivesItsServer(t *testing.T, priority int) {
	t.Parallel()
	c := startCluster(t)
	nc, err := nats.Connect(c.URL(), jet.Resilient(t.Name(), slog.New(slog.DiscardHandler))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	s, err := jet.Open(t.Context(), nc, streams.Layout{Replicas: 3, AckWait: harness.Patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	r := &events.Recorder{Log: s, Actor: "test", Now: time.Now, NewID: events.NewID}
	w, err := worker.New(worker.Ports{Log: s, Offers: s, Nodes: s, Outputs: s}, worker.Config{Node: "n1", Slots: 2, Beat: 300 * time.Millisecond, NodeTTL: 30 * time.Second, Spool: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	end := make(chan struct{})
	w.Handle("h", func(ctx context.Context, _ task.Task) error {
		select {
		case <-end:
		case <-ctx.Done():
		}
		return context.Cause(ctx)
	})
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- w.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
	until := func(what string, holds func(ctx context.Context) bool) {
		t.Helper()
		if !harness.Poll(harness.Patience, func() bool {
			once, cancel := context.WithTimeout(ctx, 5*time.Second) // an answer can go down with its server
			defer cancel()
			return holds(once)
		}) {
			t.Fatalf("waited %v in vain: %s", harness.Patience, what)
		}
	}
	var now task.Task
	is := func(id task.ID, want task.State) func(context.Context) bool {
		return func(ctx context.Context) bool {
			var err error
			now, err = r.Load(ctx, id)
			return err == nil && now.State == want
		}
	}
	aim := func() task.ID {
		id := task.ID(events.NewID(time.Now()))
		born := task.Submitted{Work: task.Work{Route: placement.NodeRoute("n1", priority), Spec: &job.Spec{Handler: "h", Place: job.Place{Nodes: []string{"n1"}}}}}
		until("a task is submitted", func(ctx context.Context) bool { _, err := r.Submit(ctx, id, born); return err == nil })
		return id
	}
	var n node.Node
	ready := func(connection uint64) func(context.Context) bool {
		return func(ctx context.Context) bool {
			var err error
			n, err = r.LoadNode(ctx, "n1")
			return err == nil && n.State == node.Ready && n.Connection >= connection
		}
	}
	until("the node is ready", ready(1))
	before := aim()
	until("a task runs", is(before, task.Running))
	epoch := now.Epoch

	holder := slices.IndexFunc(c.Servers, func(ns *server.Server) bool {
		return ns.JetStreamIsConsumerLeader("$G", jetnames.LogStream, "MR_NODE_n1")
	})
	if holder < 0 {
		t.Fatal("no server holds the consumer of the node")
	}
	c.Servers[holder].Shutdown()
	lost := time.Now()
	meanwhile := aim()
	until("what was aimed at the node starts", is(meanwhile, task.Running))
	t.Logf("%v after the loss of the server", time.Since(lost).Round(time.Millisecond))
	until("the node has proved anew that work reaches it", ready(2))
	close(end)
	for _, id := range []task.ID{before, meanwhile} {
		until("it ends", is(id, task.Finished))
		if now.Attempt != 1 || id == before && now.Epoch != epoch {
			t.Errorf("it ended as attempt %d of epoch %d, want the first one of %d", now.Attempt, now.Epoch, epoch)
		}
	}
}

// startCluster starts three servers in this process that hold everything three times.
func startCluster(t *testing.T) *embed.Cluster {
	t.Helper()
	c, err := embed.StartCluster(t.TempDir(), 3, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return c
}
