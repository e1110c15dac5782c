package observe

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"millrace/events"
	"millrace/task"
)

// ahead is how many ended tasks may wait until their spans are made.
const ahead = 4096

// Following says which spans a [Follower] sends, and where it reads them.
type Following struct {
	Tracer *Tracer
	// After is the end of the log at the start: another process has sent tasks that ended before.
	After uint64
	// History reads the facts about a task.
	History func(context.Context, task.ID) ([]events.Record, error)
	// First tells whether this process goes first with a task, among several that follow the log.
	First func(key string) bool
	Now   func() time.Time
	Log   *slog.Logger
}

// Follower sends the spans of ended tasks, except those of attempts that ended by their worker's
// report: that worker sends these. It is an observer of package projections.
type Follower struct {
	Following

	ended  chan task.ID
	missed atomic.Int64
}

// NewFollower returns a follower that has seen no facts.
func NewFollower(f Following) *Follower {
	return &Follower{Following: f, ended: make(chan task.ID, ahead)}
}

// Observe records which tasks have ended. It never waits: if too many end at once, it omits some.
func (f *Follower) Observe(steps []events.Step) {
	for i := range steps {
		s := &steps[i]
		if s.Record.Seq <= f.After || s.Record.Retold() || !s.Is.State.Terminal() || s.Was.State.Terminal() {
			continue
		}
		select {
		case f.ended <- task.ID(append([]byte(nil), s.Record.Fact.Task...)):
		default:
			f.missed.Add(1)
		}
	}
}

// Run sends the spans of ended tasks, until ctx ends.
func (f *Follower) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case id := <-f.ended:
			if !f.First("trace " + string(id)) {
				continue
			}
			list, err := Past(ctx, f.History, id, f.Now())
			if err != nil && ctx.Err() == nil {
				f.Log.Warn("the spans of a task are left out", "task", string(id), "error", err)
			}
			for i := range list {
				if !list[i].Own {
					f.Tracer.Send(ctx, list[i:i+1])
				}
			}
			if n := f.missed.Swap(0); n > 0 {
				f.Log.Warn("spans of tasks are left out, for too many have ended at once; `millrace task trace` makes them again", "tasks", n)
			}
		}
	}
}

// Pasts returns the spans of tasks from the log, one task after another.
func Pasts(ctx context.Context, history func(context.Context, task.ID) ([]events.Record, error), ids []task.ID, now time.Time) (all []Span, err error) {
	for _, id := range ids {
		list, err := Past(ctx, history, id, now)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, nil
}

// Past returns the spans of a task from the log.
func Past(ctx context.Context, history func(context.Context, task.ID) ([]events.Record, error), id task.ID, now time.Time) ([]Span, error) {
	records, err := history(ctx, id)
	if err != nil {
		return nil, err
	}
	root, above := id, records
	for {
		var t task.Task
		for i := range above {
			if t.Apply(above[i].Task()); t.State != task.Unknown {
				break
			}
		}
		if t.Parent == "" || t.Trace != "" {
			return Of(records, root, now), nil
		}
		if above, err = history(ctx, t.Parent); err != nil {
			return nil, err
		}
		root = t.Parent
	}
}
