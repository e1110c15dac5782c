package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"millrace/task"
)

// Timers lie beside the log, and whoever may set one can remove all. What is to be armed follows from the log, so
// the sweep sets again what is missing: before it is due, for then nothing is late.

// TimerModel is what the sweep of timers asks a read model for.
type TimerModel interface {
	// Timed returns tasks that wait for their timers, scheduled or retrying, in the order of their ids after the one given.
	Timed(ctx context.Context, after task.ID, limit int) ([]task.ID, error)
	// TimedCount is how many there are.
	TimedCount(ctx context.Context) (int, error)
	// Coming returns those that are due after a time and not after another.
	Coming(ctx context.Context, from, until time.Time) ([]task.ID, error)
}

// Bounds of a look at timers.
const (
	// timersAhead is how long before it is due a task's timer is looked for: some sweeps, so that one
	// scheduler that dies meanwhile makes nothing late.
	timersAhead     = time.Minute
	timersAtOnce    = 250
	timersPerSweep  = 5000
	timersShortfall = 2 // sweeps, one after the other, that found too few of them
)

// timerSweep is what the sweep remembers of timers; its own.
type timerSweep struct {
	until time.Time // what is due before was looked at
	few   int       // how often one after the other there were fewer timers than tasks
	round bool      // all tasks are looked at, as many at a time as a sweep may
	after task.ID   // where that goes on
}

// sweepTimers looks whether the tasks have their timers that are due within the next minute, and whether all
// others have: some of these in each sweep, and many while there are too few timers, for then somebody has removed
// them, or their stream was made anew.
func (s *Scheduler) sweepTimers(ctx context.Context, now time.Time) error {
	if s.cfg.Timed == nil || s.cfg.Timers == nil || !s.turns.First("timers") {
		return nil
	}
	w := &s.timerSweep
	from, until := w.until, now.Add(timersAhead)
	if from.IsZero() || from.Before(now) {
		from = now
	}
	ids, err := s.cfg.Timed.Coming(ctx, from, until)
	if err == nil {
		err = s.rearmAll(ctx, ids, now)
	}
	if err == nil {
		w.until = until
	}
	return errors.Join(err, s.lookRound(ctx, now))
}

// lookRound goes on through all tasks with timers, some in each sweep, and many if there are fewer timers than
// tasks. What strangers have set counts as timers, too, so their number alone proves nothing.
func (s *Scheduler) lookRound(ctx context.Context, now time.Time) error {
	w := &s.timerSweep
	if !w.round {
		tasks, err := s.cfg.Timed.TimedCount(ctx)
		if err != nil || tasks == 0 {
			w.few = 0
			return err
		}
		timers, err := s.cfg.Timers.Timers(ctx)
		if err != nil {
			return err
		}
		if w.few++; timers >= tasks {
			w.few = 0
		}
		if w.few >= timersShortfall { // once, some may just have fired
			w.round, w.after = true, ""
		}
	}
	parts := 1
	if w.round {
		parts = timersPerSweep / timersAtOnce
	}
	for range parts {
		ids, err := s.cfg.Timed.Timed(ctx, w.after, timersAtOnce)
		if err == nil {
			err = s.rearmAll(ctx, ids, now)
		}
		if err != nil {
			return err
		}
		if len(ids) < timersAtOnce {
			w.round, w.few, w.after = false, 0, ""
			break
		}
		w.after = ids[len(ids)-1]
	}
	return nil
}

// rearmAll sets the timers of tasks that lack them.
func (s *Scheduler) rearmAll(ctx context.Context, ids []task.ID, now time.Time) error {
	for some := range slices.Chunk(ids, timersAtOnce) {
		tasks, err := s.view.Known(ctx, some)
		if err != nil {
			return err
		}
		armed, err := s.cfg.Timers.Armed(ctx, some)
		if err != nil {
			return err
		}
		for i := range tasks {
			if !s.lacksTimer(&tasks[i], armed, now) {
				continue
			}
			if err := s.rearmTask(ctx, tasks[i].ID, now); err != nil {
				return err
			}
		}
	}
	return nil
}

// lacksTimer tells whether a task waits for a timer that it does not have. Whoever opened its turn may be about to
// set it; and what is overdue is offered, which is another duty.
func (s *Scheduler) lacksTimer(t *task.Task, armed map[task.ID]task.Due, now time.Time) bool {
	next, waits := task.NextOffer(t)
	if !waits || !next.Due.After(now) || now.Sub(t.Since) < s.cfg.Slack {
		return false
	}
	there, is := armed[t.ID]
	return !is || next.Timer().Replaces(there)
}

// rearmTask sets the timer of a task that the read model knows without one, if the log says the same.
func (s *Scheduler) rearmTask(ctx context.Context, id task.ID, now time.Time) error {
	t, err := s.rec.Load(ctx, id)
	if errors.Is(err, task.ErrUnknown) {
		return nil
	}
	if err != nil {
		return err
	}
	armed, err := s.cfg.Timers.Armed(ctx, []task.ID{id})
	if err != nil || !s.lacksTimer(&t, armed, now) {
		return err
	}
	if err := s.rec.Settle(ctx, &t); err != nil {
		return fmt.Errorf("set the timer of task %s again: %w", id, err)
	}
	s.repaired(RepairTimer, 1, "its timer was gone; the sweep has set it again", "task", string(id), "due", t.Due)
	return nil
}
