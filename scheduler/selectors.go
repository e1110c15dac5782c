package scheduler

import (
	"context"
	"errors"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/task/queue"
	"millrace/task/value"
)

// Selectors holds the declarations of selectors' routes, so that nodes find those that they match.
type Selectors interface {
	// Declare stores a declaration. Repeating it is harmless.
	Declare(ctx context.Context, d placement.Declaration) error
	// Declared lists the declarations. Crowded lists those among which there is little room for more.
	Declared(ctx context.Context) ([]placement.Declaration, error)
	Crowded(ctx context.Context) ([]placement.Declaration, error)
	// Retract removes a declaration, unless it was renewed, and what the server holds for the
	// route.
	Retract(ctx context.Context, d placement.Declaration) error
}

// Lanes is what the server holds for tasks that wait in a queue with another priority, or with a
// fair key.
type Lanes interface {
	// UnusedLanes lists the lanes that were not used since a time.
	UnusedLanes(ctx context.Context, since time.Time) ([]placement.Lane, error)
	// CloseLane removes what the server holds for a lane, and tells whether it did. A lane that is
	// in use or holds offers stays. Nothing is lost: the next writer opens it again.
	CloseLane(ctx context.Context, l placement.Lane, since time.Time) (bool, error)
	// LanesTold tells whether the records of lanes are complete: they are not at first, and after a
	// loss. TellLanes completes them: it records which lanes are in use, and when the last timer of
	// each is due.
	LanesTold(ctx context.Context) (bool, error)
	TellLanes(ctx context.Context, used map[placement.Lane]time.Time) error
}

// LaneModel is the read model that knows which lanes are in use.
type LaneModel interface {
	// Lanes returns the lanes with tasks that have not ended, and when the last timer in each is
	// due.
	Lanes(ctx context.Context) (map[placement.Lane]time.Time, error)
}

// sweepLanes restores the records of lanes if they are lost.
func (s *Scheduler) sweepLanes(ctx context.Context) error {
	if s.cfg.Lanes == nil || s.cfg.Laned == nil || !s.turns.First("lanes") {
		return nil
	}
	told, err := s.cfg.Lanes.LanesTold(ctx)
	switch {
	case told || errors.Is(err, events.ErrNoStream): // the stream is about to be made again
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

// MinIdle is the shortest time for which unused lanes and selectors' routes stay: longer than a
// writer relies on its own earlier declaration.
const MinIdle = 2 * time.Hour

// reapLanes removes the lanes that no task has used for [Config.Idle].
func (s *Scheduler) reapLanes(ctx context.Context) error {
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

// learn reads from a task what a selector's route requires of nodes, and declares the route if
// needed.
func (s *Scheduler) learn(ctx context.Context, queue string, now time.Time, w *Roster) error {
	if !placement.IsSelectorQueue(queue) {
		return nil
	}
	ids, err := s.view.Waiting(ctx, queue, now, "", 1)
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
	// The route may have been removed while the task was placed: then it begins there.
	return s.cfg.Selectors.Declare(ctx, placement.Declaration{Queue: served, Needs: needs, From: max(t.Turn, 1)})
}

// reapSelectors removes the selectors' routes that no task has used for [Config.Idle].
func (s *Scheduler) reapSelectors(ctx context.Context) error {
	if s.cfg.Selectors == nil {
		return nil
	}
	declared, err := s.cfg.Selectors.Declared(ctx)
	return errors.Join(err, s.retract(ctx, declared, s.cfg.Idle))
}

// retract removes those routes that no task needs and that were declared so long ago.
func (s *Scheduler) retract(ctx context.Context, declared []placement.Declaration, idle time.Duration) error {
	var errs []error
	for _, d := range declared {
		if s.rec.Now().Sub(d.At) < idle {
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

// settledSelector is how long a new selector stays at least: the read model does not know the tasks
// at once for which it was declared.
const settledSelector = 10 * time.Second

// sweepSelectors removes the selectors' routes that no task needs where there is little room for more.
// A writer may still rely on one of them; then the next sweep declares it again.
func (s *Scheduler) sweepSelectors(ctx context.Context) error {
	if s.cfg.Selectors == nil || !s.turns.First("selectors") {
		return nil
	}
	crowded, err := s.cfg.Selectors.Crowded(ctx)
	if errors.Is(err, events.ErrNoStream) { // it is about to be made again
		return nil
	}
	return errors.Join(err, s.retract(ctx, crowded, settledSelector))
}

// sweepQueue reads the settings of a queue and applies them, because the process that recorded them
// may have died before.
func (s *Scheduler) sweepQueue(ctx context.Context, name string, w *Roster) error {
	q, err := s.tell(ctx, name, w)
	if err == nil && q.Head > 0 && s.cfg.Deliveries != nil && s.turns.First(name) {
		err = s.cfg.Deliveries.KeepQueue(ctx, name)
	}
	return err
}

// tell reads the settings of a queue into a world that does not have them. It returns zero if it has
// them, or if the name is that of a node's own route.
func (s *Scheduler) tell(ctx context.Context, name string, w *Roster) (queue.Queue, error) {
	if value.ValidName("queue", name) != nil || w.Told(name) {
		return queue.Queue{}, nil
	}
	q, err := s.rec.LoadQueue(ctx, name)
	if err == nil {
		w.Tell(q)
	}
	return q, err
}
