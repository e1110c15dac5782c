package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"millrace/events"
	"millrace/events/jet"
	"millrace/events/jet/request"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/worker"
)

// queue is the queue of a benchmark's tasks.
const queue = "bench"

type bench struct {
	cfg    Config
	report Report

	floor   *nats.Conn // of the bare loop
	store   *jet.Store
	client  *client.Client
	working *jet.Store // of the worker
	closers []func()

	submitted int
	first     uint64 // the log's sequence before the first task
}

func (b *bench) open(ctx context.Context) (err error) {
	if b.floor, err = b.dial("floor"); err != nil {
		return err
	}
	if b.store, err = b.openStore(ctx, "client"); err != nil {
		return err
	}
	if b.working, err = b.openStore(ctx, "worker"); err != nil {
		return err
	}
	b.client = client.New(b.store, "bench")
	b.first, err = b.store.Last(ctx)
	return err
}

func (b *bench) dial(what string) (*nats.Conn, error) {
	nc, err := b.cfg.Dial("millrace bench " + what)
	if err != nil {
		return nil, err
	}
	b.closers = append(b.closers, nc.Close)
	return nc, nil
}

// electing is how long servers that have just begun may take to elect a leader.
var electing = request.Patience{For: time.Minute}

func (b *bench) openStore(ctx context.Context, what string) (*jet.Store, error) {
	nc, err := b.dial(what)
	if err != nil {
		return nil, err
	}
	store, err := jet.Open(ctx, nc, b.cfg.Layout, jet.WithPatience(electing))
	if err != nil {
		return nil, err
	}
	b.closers = append(b.closers, store.Close)
	return store, nil
}

func (b *bench) close() {
	for _, c := range slices.Backward(b.closers) {
		c()
	}
}

var noop = birth.Submission{Spec: &job.Spec{Handler: "noop"}, Queue: queue}

func (b *bench) submit(ctx context.Context, s birth.Submission, n int) error {
	b.submitted += n
	return b.client.SubmitMany(ctx, s, n, nil)
}

// failsOnce is the handler of tasks whose first attempt fails.
const failsOnce = "fails-once"

// crew is a worker and the number of tasks that it has begun.
type crew struct {
	ended chan error
	stop  context.CancelFunc
	all   chan struct{}
	begun atomic.Int64
	bench *bench
}

// stall is how long no task may begin before a measurement is aborted.
const stall = time.Minute

// hire starts a worker that is expected to run n no-op tasks.
func (b *bench) hire(ctx context.Context, slots, n int, each func(task.Task)) (*crew, error) {
	w, err := worker.New(worker.Ports{Log: b.working, Offers: b.working, Nodes: b.working, Outputs: b.working}, worker.Config{Node: "bench", Queues: []string{queue}, Slots: slots, Commands: b.cfg.Commands})
	if err != nil {
		return nil, err
	}
	c := &crew{ended: make(chan error, 1), all: make(chan struct{}), bench: b}
	w.Handle("noop", func(_ context.Context, t task.Task) error {
		if each != nil {
			each(t)
		}
		if c.begun.Add(1) == int64(n) {
			close(c.all)
		}
		return nil
	})
	w.Handle(failsOnce, func(_ context.Context, t task.Task) error {
		if t.Attempt == 1 {
			return errors.New("the first attempt fails, as planned")
		}
		return nil
	})
	ctx, c.stop = context.WithCancel(ctx)
	go func() { c.ended <- w.Run(ctx) }()
	return c, nil
}

// dismiss ends the worker when it has reported what it has begun.
func (c *crew) dismiss() error {
	c.stop()
	return <-c.ended
}

// wait waits until all have begun; if none begins for stall, the error says how far they are.
func (c *crew) wait(ctx context.Context) error {
	look := time.NewTicker(stall)
	defer look.Stop()
	for before := int64(-1); ; {
		select {
		case <-c.all:
			return nil
		case err := <-c.ended:
			return fmt.Errorf("the worker ended early: %w", err)
		case <-ctx.Done():
			return ctx.Err()
		case <-look.C:
		}
		begun := c.begun.Load()
		if begun == before {
			page, err := c.bench.client.List(ctx, client.ListRequest{Filter: view.Filter{Queue: queue, Limit: 1}, Counts: true})
			return errors.Join(fmt.Errorf("%d tasks have begun and none in the last %v; those of the queue are %s", begun, stall, counted(page.Counts)), err)
		}
		before = begun
	}
}

// caughtUp waits for the read model and returns how long that took.
func (b *bench) caughtUp(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	start := time.Now()
	last, err := b.store.Last(ctx)
	if err != nil {
		return 0, err
	}
	_, err = b.client.List(ctx, client.ListRequest{Filter: view.Filter{Limit: 1}, AtLeast: last})
	return time.Since(start), err
}

// audit reads the log and counts accepted ends of this run's tasks.
func (b *bench) audit(ctx context.Context) error {
	b.cfg.Progress("reading the log for lost and duplicated tasks")
	last, err := b.store.Last(ctx)
	if err != nil {
		return err
	}
	feed, err := b.store.Follow(ctx, b.first+1)
	if err != nil {
		return err
	}
	defer feed.Close()
	ends := make(map[task.ID]int, b.submitted)
	for at := b.first; at < last; {
		records, err := feed.Next(ctx)
		if err != nil {
			return err
		}
		for i := range records {
			r := &records[i]
			switch r.Fact.Type {
			case events.TaskSubmitted:
				if e, ok := r.Fact.Event.(task.Submitted); ok && e.Route.Queue() == queue {
					ends[r.Fact.Task] += 0
				}
			case events.AttemptFinished:
				if n, ours := ends[r.Fact.Task]; ours {
					ends[r.Fact.Task] = n + 1
				}
			}
			at = r.Seq
		}
	}
	b.report.Submitted = b.submitted
	b.report.Lost = b.submitted - len(ends)
	for _, n := range ends {
		switch {
		case n == 0:
			b.report.Lost++
		case n > 1:
			b.report.Duplicated++
		}
	}
	return nil
}

func median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func rate(n int, d time.Duration) float64 { return float64(n) / d.Seconds() }
