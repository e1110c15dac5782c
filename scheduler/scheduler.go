package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"millrace/events"
	"millrace/node"
	"millrace/task"
)

// View is what a scheduler asks a read model for. It may lag behind the log.
type View interface {
	// Due returns live tasks whose own deadline has passed, at most limit.
	Due(ctx context.Context, now time.Time, limit int) ([]task.ID, error)
	// Queues returns the queues in which tasks are pending.
	Queues(ctx context.Context) ([]string, error)
	// Waiting returns tasks of a queue that have been pending since before a time.
	Waiting(ctx context.Context, queue string, before time.Time, limit int) ([]task.ID, error)
	// OnNode returns the tasks that run on a node.
	OnNode(ctx context.Context, id node.ID) ([]task.ID, error)
	// Nodes returns all nodes, and the sequence that reflects.
	Nodes(ctx context.Context) ([]node.Node, uint64, error)
}

// Heartbeats says which nodes beat.
type Heartbeats interface {
	Alive(ctx context.Context) (map[node.ID]node.Heartbeat, error)
}

// Config sets the scheduler's pace. Zero fields mean the default.
type Config struct {
	// Settings are the bounds that hold for all tasks.
	task.Settings
	// Sweep is how often it looks for late tasks. Default 5s.
	Sweep time.Duration
	// Presence is how often it looks for silent nodes. Default 500ms.
	Presence time.Duration
	// Settling is how long heartbeats may be missing after the scheduler or its
	// connection has come up, before that means anything: nodes have to come back first. Default 5s.
	Settling time.Duration
	// Looked is told of each round of a loop, [LoopSweep] or [LoopPresence], when
	// it is over. Default: nobody is.
	Looked func(loop string, began, ended time.Time, err error)
	Log    zerolog.Logger
}

// The loops of a scheduler.
const (
	LoopSweep    = "sweep"
	LoopPresence = "presence"
)

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, to time.Duration) {
		if *d == 0 {
			*d = to
		}
	}
	set(&c.StartDeadline, 5*time.Minute)
	set(&c.AckWait, 30*time.Second)
	set(&c.Slack, 3*time.Second)
	set(&c.Sweep, 5*time.Second)
	set(&c.Presence, 500*time.Millisecond)
	set(&c.Settling, 5*time.Second)
	if c.Looked == nil {
		c.Looked = func(string, time.Time, time.Time, error) {}
	}
	return c
}

// Scheduler is one of possibly many.
type Scheduler struct {
	cfg   Config
	view  View
	beats Heartbeats
	rec   *events.Recorder
	log   zerolog.Logger

	unserved map[string]time.Time // queues that no node serves, and since when; the sweep's own
	presence presence
	repairs  atomic.Int64
}

// New returns a scheduler that decides on a log what a view says is late.
func New(log events.Log, view View, beats Heartbeats, cfg Config) *Scheduler {
	cfg = cfg.withDefaults()
	return &Scheduler{
		cfg: cfg, view: view, beats: beats, log: cfg.Log, unserved: map[string]time.Time{},
		presence: presence{settled: time.Now().Add(cfg.Settling)},
		rec:      &events.Recorder{Log: log, Actor: "scheduler", Now: time.Now, NewID: events.NewID},
	}
}

// Run keeps the deadlines until ctx ends, and then returns nil.
func (s *Scheduler) Run(ctx context.Context) error {
	var g errgroup.Group
	g.Go(func() error { s.every(ctx, LoopSweep, s.cfg.Sweep, s.Sweep); return nil })
	g.Go(func() error { s.every(ctx, LoopPresence, s.cfg.Presence, s.CheckNodes); return nil })
	return g.Wait()
}

// Repairs counts the steps that nobody should have had to do: offers that were
// due and had not been placed.
func (s *Scheduler) Repairs() int64 { return s.repairs.Load() }

func (s *Scheduler) every(ctx context.Context, loop string, d time.Duration, do func(context.Context) error) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		began := time.Now()
		err := do(ctx)
		s.cfg.Looked(loop, began, time.Now(), err)
		if err != nil && ctx.Err() == nil && !failing {
			s.log.Warn().Err(err).Msg("scheduler cannot look; trying again")
		}
		failing = err != nil
	}
}

// batch is how many tasks of one kind a sweep takes on.
const batch = 1000

// Sweep looks once for late tasks and records what follows.
func (s *Scheduler) Sweep(ctx context.Context) error {
	now := s.rec.Now()
	nodes, _, err := s.view.Nodes(ctx)
	if err != nil {
		return err
	}
	world := newWorld(nodes)
	due, err := s.view.Due(ctx, now, batch)
	if err != nil {
		return err
	}
	errs := []error{s.enforceAll(ctx, due, world)}
	for _, n := range nodes {
		if n.State != node.Offline {
			continue
		}
		ids, err := s.view.OnNode(ctx, n.ID)
		errs = append(errs, err, s.enforceAll(ctx, ids, world))
	}
	return errors.Join(append(errs, s.sweepQueues(ctx, now, world))...)
}

// sweepQueues looks at queues that nobody serves.
func (s *Scheduler) sweepQueues(ctx context.Context, now time.Time, w *world) error {
	queues, err := s.view.Queues(ctx)
	if err != nil {
		return err
	}
	unserved := map[string]time.Time{}
	for _, q := range queues {
		if w.serving(q) > 0 {
			continue
		}
		// Since when is what this scheduler has seen itself: workers may be on
		// their way back after an outage of everything.
		since, ok := s.unserved[q]
		if !ok {
			since = now
		}
		unserved[q] = since
		w.unserved[q] = since
		if now.Sub(since) < s.cfg.StartDeadline {
			continue
		}
		ids, err := s.view.Waiting(ctx, q, now.Add(-s.cfg.StartDeadline), batch)
		if err := errors.Join(err, s.enforceAll(ctx, ids, w)); err != nil {
			return err
		}
	}
	s.unserved = unserved
	return nil
}

func (s *Scheduler) enforceAll(ctx context.Context, ids []task.ID, w *world) error {
	for _, id := range ids {
		if err := s.enforce(ctx, id, w); err != nil {
			return err
		}
	}
	return nil
}

// enforce reads one task from the log and records what its duty asks for if
// that is overdue.
func (s *Scheduler) enforce(ctx context.Context, id task.ID, w *world) error {
	t, err := s.rec.Load(ctx, id)
	if errors.Is(err, task.ErrUnknown) {
		return nil
	}
	if err != nil {
		return err
	}
	duty := task.Owes(t, w.around(&t), s.cfg.Settings)
	if !duty.Overdue(s.rec.Now()) {
		return nil
	}
	if duty.Command == nil {
		// The offer that should have come by itself.
		if _, missing := task.NextOffer(t); !missing {
			return nil
		}
		s.repairs.Add(1)
		s.log.Warn().Str("task", string(id)).Str("state", t.State.String()).Time("by", duty.By).Msg("overdue: " + duty.What + "; the sweep does it")
		return s.rec.Settle(ctx, t)
	}
	t, event, err := s.rec.Do(ctx, t, duty.Command)
	switch {
	case errors.Is(err, task.ErrEnded), errors.Is(err, task.ErrFenced), errors.Is(err, task.ErrNotWaiting):
		return nil // somebody was faster
	case err != nil:
		return fmt.Errorf("task %s is overdue: %w", id, err)
	}
	if event != nil {
		s.log.Info().Str("task", string(id)).Str("fact", string(events.TypeOf(event))).Msg("deadline passed: " + duty.Else)
	}
	return s.rec.Settle(ctx, t)
}

// world is what is known of the nodes.
type world struct {
	nodes    map[node.ID]node.Node
	unserved map[string]time.Time
}

func newWorld(nodes []node.Node) *world {
	w := &world{nodes: make(map[node.ID]node.Node, len(nodes)), unserved: map[string]time.Time{}}
	for _, n := range nodes {
		w.nodes[n.ID] = n
	}
	return w
}

func (w *world) serving(queue string) int {
	n := 0
	for _, node := range w.nodes {
		if node.Serves(queue) {
			n++
		}
	}
	return n
}

func (w *world) around(t *task.Task) task.Surroundings {
	queue := t.Route.Queue()
	around := task.Surroundings{Serving: w.serving(queue), Unserved: w.unserved[queue]}
	if n, ok := w.nodes[node.ID(t.Node)]; ok && t.Live() {
		switch {
		case n.Session != t.Session:
			around.NodeGone = n.Started // the process that ran it is gone
		case n.State == node.Offline:
			around.NodeGone = n.Since
		}
	}
	return around
}
