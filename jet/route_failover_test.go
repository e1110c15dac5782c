package jet

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"millrace/events"
	"millrace/node"
	"millrace/task"
	"millrace/worker"
)

// Of three servers one holds the consumer of a node in its memory, and is lost. The node
// finds that out and has its route again on another one; what was put there meanwhile
// starts, and what ran before goes on as the same attempt.
func TestRouteOutlivesItsServer(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	nc := c.connect(t, 1)
	s := newImpatientStore(t, nc, 2*time.Second, Layout{Replicas: 3, AckWait: 40 * time.Second})
	r := recorder(s)
	w := must(worker.New(s, worker.Config{Node: "n1", Slots: 2, Beat: 300 * time.Millisecond, NodeTTL: 30 * time.Second, Spool: t.TempDir()}))(t)
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
	facts := func() []events.Type {
		var types []events.Type
		records, _ := s.Node(within(t), "n1") // without a leader there are none
		for i := range records {
			types = append(types, records[i].Fact.Type)
		}
		return types
	}
	is := func(id task.ID, want task.State) func() bool {
		return func() bool {
			k, err := r.Load(within(t), id)
			return err == nil && k.State == want
		}
	}
	aim := func() task.ID {
		id := newTask()
		e := task.Submitted{Work: task.Work{Route: task.NodeRoute("n1", task.DefaultPriority), Spec: &task.Spec{Handler: "h", Place: task.Place{Nodes: []string{"n1"}}}}}
		eventually(t, "a task is submitted", func() bool {
			_, err := r.Submit(within(t), id, e)
			return err == nil
		})
		return id
	}
	eventually(t, "the node is ready", func() bool { return slices.Contains(facts(), events.NodeReady) })
	before := aim()
	eventually(t, "a task runs", is(before, task.Running))
	epoch := must(r.Load(within(t), before))(t).Epoch

	i := slices.IndexFunc(c.servers, func(ns *server.Server) bool {
		return ns.JetStreamIsConsumerLeader("A1", LogStream, nodeConsumer("n1"))
	})
	if i < 0 {
		t.Fatal("no server holds the consumer of the node")
	}
	c.servers[i].Shutdown()
	lost := time.Now()
	meanwhile := aim()
	eventually(t, "what was aimed at the node starts", is(meanwhile, task.Running))
	t.Logf("%v after the loss of the server", time.Since(lost).Round(time.Millisecond))
	close(end)
	for _, id := range []task.ID{before, meanwhile} {
		eventually(t, "it ends", is(id, task.Finished))
		if k := must(r.Load(within(t), id))(t); k.Attempt != 1 || id == before && k.Epoch != epoch {
			t.Errorf("it ended as attempt %d of epoch %d, want the first one of %d", k.Attempt, k.Epoch, epoch)
		}
	}
	if n := must(r.LoadNode(within(t), "n1"))(t); n.State != node.Ready || n.Connection < 2 {
		t.Errorf("the node is %s over connection %d, want it to have proved anew that work reaches it", n.State, n.Connection)
	}
}
