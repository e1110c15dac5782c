package scheduler

import (
	"context"
	"errors"
	"time"

	"millrace/events"
	"millrace/node"
	"millrace/task"
	"millrace/task/value"
	"millrace/task/where"
)

// Selectors say what routes of selectors stand for, so that nodes find those that they match.
type Selectors interface {
	// Declare says it; to do so again is harmless.
	Declare(ctx context.Context, d where.Declaration) error
	// Declared lists what has been said.
	Declared(ctx context.Context) ([]where.Declaration, error)
	// Retract takes a word back, unless it was said again, and removes what the server holds for the route.
	Retract(ctx context.Context, d where.Declaration) error
}

// Lanes are what the server holds for tasks that wait in a queue with another priority, or with a key.
type Lanes interface {
	// UnusedLanes lists those that nobody has used since a time.
	UnusedLanes(ctx context.Context, since time.Time) ([]where.Lane, error)
	// CloseLane removes what the server holds for one, and tells whether it did. One that is used, or in which something
	// lies, stays. Nothing is lost by it: whoever uses it next opens it again.
	CloseLane(ctx context.Context, l where.Lane, since time.Time) (bool, error)
	// LanesTold tells whether what is said of lanes is whole: it is not at first, and after it was lost. TellLanes makes it so:
	// it says which are used, and until when the last timer is due that was set for each.
	LanesTold(ctx context.Context) (bool, error)
	TellLanes(ctx context.Context, used map[where.Lane]time.Time) error
}

// LaneModel is the read model that knows which lanes are used.
type LaneModel interface {
	// Lanes returns those in which tasks are that have not ended, and when the last of those is due that wait for timers.
	Lanes(ctx context.Context) (map[where.Lane]time.Time, error)
}

// sweepLanes says which lanes are used if what was said of that is lost.
func (s *Scheduler) sweepLanes(ctx context.Context) error {
	if s.cfg.Lanes == nil || s.cfg.Laned == nil || !s.turns.First("lanes") {
		return nil
	}
	told, err := s.cfg.Lanes.LanesTold(ctx)
	switch {
	case told || errors.Is(err, events.ErrNoStream): // it is about to be made again
		return nil
	case err != nil:
		return err
	}
	used, err := s.cfg.Laned.Lanes(ctx)
	if err != nil {
		return err
	}
	return s.cfg.Lanes.TellLanes(ctx, used)
}

// MinIdle is the least for which lanes and routes of selectors may stay that nobody uses: longer than a writer
// takes what it has said of one for granted.
const MinIdle = 2 * time.Hour

// ReapLanes removes once the lanes that nobody has used for long.
func (s *Scheduler) ReapLanes(ctx context.Context) error {
	if s.cfg.Lanes == nil {
		return nil
	}
	since := s.rec.Now().Add(-s.cfg.Idle)
	unused, err := s.cfg.Lanes.UnusedLanes(ctx, since)
	errs := []error{err}
	for _, l := range unused {
		_, err := s.cfg.Lanes.CloseLane(ctx, l, since)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// learn finds out from a task what the route of a selector asks of nodes, and sees
// to it that they know.
func (s *Scheduler) learn(ctx context.Context, queue string, now time.Time, w *World) error {
	if !where.IsSelectorQueue(queue) {
		return nil
	}
	ids, err := s.view.Waiting(ctx, queue, now, 1)
	if err != nil || len(ids) == 0 {
		return err
	}
	t, err := s.rec.Load(ctx, ids[0])
	if errors.Is(err, task.ErrUnknown) {
		return nil
	}
	if err != nil || t.Route.Queue() != queue {
		return err
	}
	served, needs := t.Asks()
	w.Learn(queue, node.Want{Queue: served, Needs: needs})
	if s.cfg.Selectors == nil || !s.turns.First(queue) {
		return nil
	}
	return s.cfg.Selectors.Declare(ctx, where.Declaration{Queue: served, Needs: needs})
}

// ReapSelectors removes once the routes of selectors that nobody has used for long.
func (s *Scheduler) ReapSelectors(ctx context.Context) error {
	if s.cfg.Selectors == nil {
		return nil
	}
	declared, err := s.cfg.Selectors.Declared(ctx)
	errs := []error{err}
	for _, d := range declared {
		if s.rec.Now().Sub(d.At) < s.cfg.Idle {
			continue
		}
		busy, err := s.view.Busy(ctx, d.Route())
		if err == nil && !busy {
			err = s.cfg.Selectors.Retract(ctx, d)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// sweepQueue looks what operators have said about a queue, and sees to it that it holds: who
// said it may have died before. It tells whether the queue is paused.
func (s *Scheduler) sweepQueue(ctx context.Context, name string, w *World) (paused bool, err error) {
	if value.ValidName("queue", name) != nil {
		return false, nil // a node's own route
	}
	if p, told := w.Told(name); told { // of another route of this queue
		return p != nil, nil
	}
	q, err := s.rec.LoadQueue(ctx, name)
	if err != nil || q.Head == 0 {
		return false, err
	}
	w.Tell(q)
	if s.cfg.Deliveries != nil && s.turns.First(name) {
		err = s.cfg.Deliveries.KeepQueue(ctx, name)
	}
	return q.PausedAt(w.Seen) != nil, err
}
