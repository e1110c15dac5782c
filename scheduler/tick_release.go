package scheduler

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"millrace/task"
)

// names is a set of schedules.
type names struct {
	mu  sync.Mutex
	set map[string]bool // guarded by mu
}

func (n *names) add(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.set == nil {
		n.set = map[string]bool{}
	}
	n.set[name] = true
}

func (n *names) drop(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.set, name)
}

func (n *names) all() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Sorted(maps.Keys(n.set))
}

// releaseTicks checks once whether ticks that wait for the tasks of earlier ones can have theirs.
func (s *Scheduler) releaseTicks(ctx context.Context) error {
	var errs []error
	for _, name := range s.ticks.waiting.all() {
		if !s.turns.First(name) {
			continue
		}
		errs = append(errs, s.releaseTicksOf(ctx, name))
	}
	return errors.Join(errs...)
}

func (s *Scheduler) releaseTicksOf(ctx context.Context, name string) error {
	d, err := s.decider(ctx, name, time.Now().Add(-readAheadAge))
	if err != nil {
		return err
	}
	if d == nil || d.idle() {
		s.ticks.waiting.drop(name) // the sweep finds it once it has ticks again
		return nil
	}
	for {
		on := basis{s.rec.Moment(), task.By{Rule: task.RuleRelease}}
		ledger, ends, err := d.observe(ctx, on.at)
		if err != nil {
			return err
		}
		if len(ledger.Waiting) == 0 {
			s.ticks.waiting.drop(name)
			return nil
		}
		decision := d.plan.Release(ledger, d.stored.Revision)
		if decision == nil {
			return nil
		}
		on.by.Ends = ends
		done, err := d.record(ctx, decision, on)
		if err == nil && done {
			err = d.follow(ctx, decision)
		}
		if err != nil {
			return err
		}
	}
}
