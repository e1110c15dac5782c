package scheduler

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"millrace/task"
)

// waitsForOthers records whether a schedule has ticks that wait for the tasks of earlier ones.
func (w *tickWatch) waitsForOthers(name string, waits bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if delete(w.waiting, name); waits {
		w.waiting[name] = true
	}
}

// waitForOthers returns the schedules with such ticks, in order.
func (w *tickWatch) waitForOthers() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.waiting))
}

// releaseTicks checks once whether ticks that wait for the tasks of earlier ones can have theirs.
func (s *Scheduler) releaseTicks(ctx context.Context) error {
	var errs []error
	for _, name := range s.ticks.waitForOthers() {
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
		s.ticks.waitsForOthers(name, false) // the sweep finds it once it has ticks again
		return nil
	}
	for {
		on := basis{s.rec.Moment(), task.By{Rule: task.RuleRelease}}
		ledger, ends, err := d.observe(ctx, on.at)
		if err != nil {
			return err
		}
		if len(ledger.Waiting) == 0 {
			s.ticks.waitsForOthers(name, false)
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
