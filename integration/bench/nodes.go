package bench

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"millrace/events/jet"
	"millrace/task"
	"millrace/task/node"
	"millrace/worker"
)

// Waiting is the cost of many nodes that wait for work. All are in this process, each with a
// connection of its own.
type Waiting struct {
	Nodes  int `json:"nodes"`
	Queues int `json:"queues"` // over which they are spread
	// Servers is the number of NATS servers; each holds everything.
	Servers int `json:"nats_servers"`
	// ReadySeconds is how long it took until all were ready, from the start of the first;
	// nodesAtOnce start concurrently.
	ReadySeconds float64 `json:"ready_seconds"`
	// NodeBytes and ServerBytes are by how much each node grows the resident memory of this process
	// and of the servers together.
	NodeBytes   float64 `json:"node_bytes"`
	ServerBytes float64 `json:"server_bytes_per_node"`
	// Messages is how many messages an idle node and the server exchange per second, heartbeats and
	// acknowledgements included.
	Messages float64 `json:"messages_per_second_and_node"`
	// NodesBusy and ServerBusy are the processor time that all nodes and the servers use meanwhile,
	// as a share of one processor.
	NodesBusy  float64 `json:"nodes_busy"`
	ServerBusy float64 `json:"server_busy"`
	// StartLatency is for single tasks, each in the queue of another node.
	StartLatency Percentiles `json:"start_latency_ms"`
}

const (
	// nodesAtOnce is how many nodes start concurrently.
	nodesAtOnce = 32
	// nodesStart is how long a node may take to become ready.
	nodesStart = 5 * time.Minute
	// nodesSettle is how long the nodes are left alone before they are measured, and nodesRest how
	// long they are measured.
	nodesSettle = 10 * time.Second
	nodesRest   = time.Minute
	// With the intervals of profile prod.
	nodesBeat = 5 * time.Second
	nodesTTL  = 15 * time.Second
)

// ManyNodes measures n nodes that wait for work in a number of queues, for rest; 0 means a minute.
func ManyNodes(ctx context.Context, cfg Config, n, queues int, rest time.Duration) (w Waiting, err error) {
	b := &bench{cfg: cfg.withDefaults()}
	defer b.close()
	if err := b.open(ctx); err != nil {
		return w, err
	}
	w.Nodes, w.Queues, w.Servers = n, min(max(queues, 1), n), max(cfg.Layout.Replicas, 1)
	before, err := b.resident(ctx)
	if err != nil {
		return w, err
	}
	b.cfg.Progress(fmt.Sprintf("%d nodes that start", n))
	working, stop := context.WithCancel(ctx)
	var running errgroup.Group
	defer func() {
		stop()
		b.cfg.Progress("ending them")
		err = cmp.Or(err, running.Wait())
	}()
	began := time.Now()
	all, started := make([]*nats.Conn, n), make(chan time.Time, 1)
	var starting errgroup.Group
	starting.SetLimit(nodesAtOnce)
	for i := range n {
		starting.Go(func() error { return b.startNode(working, &running, i, w.Queues, &all[i], started) })
	}
	if err := starting.Wait(); err != nil {
		return w, err
	}
	w.ReadySeconds = time.Since(began).Seconds()
	rest = cmp.Or(rest, nodesRest)
	b.cfg.Progress(fmt.Sprintf("%d nodes that wait, for %v", n, rest))
	if sleep(ctx, min(nodesSettle, rest)) != nil {
		return w, ctx.Err()
	}
	messages, spent := messagesOf(all), b.spent()
	if sleep(ctx, rest) != nil {
		return w, ctx.Err()
	}
	after := b.spent()
	w.Messages = float64(messagesOf(all)-messages) / rest.Seconds() / float64(n)
	w.NodesBusy, w.ServerBusy = (after.worker-spent.worker).Seconds()/rest.Seconds(), (after.server-spent.server).Seconds()/rest.Seconds()
	used, err := b.resident(ctx)
	if err != nil {
		return w, err
	}
	w.NodeBytes, w.ServerBytes = float64(used.worker-before.worker)/float64(n), float64(used.server-before.server)/float64(n)
	w.StartLatency, err = b.singlesOver(ctx, w.Queues, started)
	return w, err
}

// startNode starts a node, stores its connection in nc, and returns when it is ready.
func (b *bench) startNode(ctx context.Context, running *errgroup.Group, i, queues int, nc **nats.Conn, started chan<- time.Time) error {
	name := fmt.Sprintf("waits-%d", i)
	var err error
	if *nc, err = b.cfg.Dial("millrace bench " + name); err != nil {
		return err
	}
	store, err := jet.Open(ctx, *nc, b.cfg.Layout)
	if err != nil {
		(*nc).Close()
		return err
	}
	ready := make(chan struct{})
	w, err := worker.New(worker.Ports{Log: store, Offers: store, Nodes: store, Outputs: store}, worker.Config{
		Node: node.ID(name), Queues: []string{waitingQueue(i % queues)}, Slots: 1, Beat: nodesBeat, NodeTTL: nodesTTL, Ready: func() { close(ready) },
	})
	if err != nil {
		store.Close()
		(*nc).Close()
		return err
	}
	w.Handle("noop", func(context.Context, task.Task) error { started <- time.Now(); return nil })
	ended := make(chan error, 1)
	running.Go(func() error {
		defer (*nc).Close()
		defer store.Close()
		err := w.Run(ctx)
		ended <- err
		return err
	})
	late := time.NewTimer(nodesStart)
	defer late.Stop()
	select {
	case <-ready:
		return nil
	case err := <-ended:
		return fmt.Errorf("node %s ended early: %w", name, err)
	case <-late.C:
		return fmt.Errorf("node %s was not ready after %v", name, nodesStart)
	}
}

func waitingQueue(i int) string { return fmt.Sprintf("waiting-%d", i) }

// messagesOf counts the messages over connections, both ways.
func messagesOf(all []*nats.Conn) (n uint64) {
	for _, nc := range all {
		s := nc.Stats()
		n += s.InMsgs + s.OutMsgs
	}
	return n
}

// singlesOver times as many single tasks as are asked for, one after the other, spread over the
// queues.
func (b *bench) singlesOver(ctx context.Context, queues int, started <-chan time.Time) (Percentiles, error) {
	b.cfg.Progress("latency of single tasks")
	times := make([]float64, 0, b.cfg.Latencies)
	for i := range b.cfg.Latencies {
		one := noop
		one.Queue = waitingQueue(i * queues / b.cfg.Latencies)
		at := time.Now()
		if _, err := b.client.Submit(ctx, one); err != nil {
			return Percentiles{}, err
		}
		select {
		case began := <-started:
			times = append(times, float64(began.Sub(at).Microseconds())/1000)
		case <-ctx.Done():
			return Percentiles{}, ctx.Err()
		}
	}
	return percentiles(times), nil
}
