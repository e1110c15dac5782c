package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"millrace/task"
)

// Timers are stored beside the log, and any client that may set one can remove all. Which timers to
// arm follows from the log, so the sweep sets missing ones again, before they are due, so that no
// task is late.

// TimerModel is the sweep's port to the read model of timers.
type TimerModel interface {
	// Timed returns tasks that wait for their timers, scheduled or retrying, in the order of their
	// ids, after the given one.
	Timed(ctx context.Context, after task.ID, limit int) ([]task.ID, error)
	// TimedCount is how many such tasks there are.
	TimedCount(ctx context.Context) (int, error)
	// Coming returns the tasks that are due after from and no later than until.
	Coming(ctx context.Context, from, until time.Time) ([]task.ID, error)
}

// Bounds of a check of timers.
const (
	// timersAhead is how long before its due time a task's timer is checked: several sweeps, so
	// that the death of one scheduler meanwhile delays no task.
	timersAhead     = time.Minute
	timersAtOnce    = 250
	timersPerSweep  = 5000
	timersShortfall = 2 // sweeps in a row that found too few timers
)

// timerSweep is the sweep's memory of timers. Only the sweep uses it.
type timerSweep struct {
	until time.Time // tasks due before this were checked
	few   int       // how often in a row there were fewer timers than tasks
	round bool      // a round over all tasks is under way, as many per sweep as allowed
	after task.ID   // where the round continues
}

// sweepTimers checks the timers of the tasks that are due within the next minute, and those of all
// others in rounds: some in each sweep, and many while there are too few timers, because then some
// were removed, or their stream was made anew.
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

// lookRound continues the round over all tasks with timers, some in each sweep, and many if there
// are fewer timers than tasks. Timers set by foreign clients count, too, so the number alone proves
// nothing.
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
		if w.few >= timersShortfall { // once is not enough: some may have fired just now
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

// lacksTimer tells whether a waiting task lacks its timer. A new turn does not count yet, because
// its writer may be about to set the timer. An overdue task does not count either: offering it is
// another duty.
func (s *Scheduler) lacksTimer(t *task.Task, armed map[task.ID]task.Due, now time.Time) bool {
	next, waits := task.NextOffer(t)
	if !waits || !next.Due.After(now) || now.Sub(t.Since) < s.cfg.Slack {
		return false
	}
	there, is := armed[t.ID]
	return !is || next.Timer().Replaces(there)
}

// rearmTask sets the timer of a task that lacks it by the read model, if the log agrees.
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
	s.repaired(RepairTimer, "its timer was gone; the sweep has set it again", "task", string(id), "due", t.Due)
	return nil
}
