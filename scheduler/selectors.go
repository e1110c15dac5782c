package scheduler

import (
	"context"
	"errors"
	"time"

	"millrace/node"
	"millrace/task"
)

// Selectors say what routes of selectors stand for, so that nodes find those that they match.
type Selectors interface {
	// Declare says it; to do so again is harmless.
	Declare(ctx context.Context, d task.Declaration) error
	// Declared lists what has been said.
	Declared(ctx context.Context) ([]task.Declaration, error)
	// Retract takes a word back, unless it was said again, and removes what the server holds for the route.
	Retract(ctx context.Context, d task.Declaration) error
}

// idleSelector is how long a route of a selector stays that nobody uses. It must far
// exceed the time for which a writer takes its declaration for granted.
const idleSelector = 24 * time.Hour

// learn finds out from a task what the route of a selector asks of nodes, and sees
// to it that they know.
func (s *Scheduler) learn(ctx context.Context, queue string, now time.Time, w *World) error {
	if !task.IsSelectorQueue(queue) {
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
	w.selectors[queue] = node.Want{Queue: served, Needs: needs}
	if s.cfg.Selectors == nil {
		return nil
	}
	return s.cfg.Selectors.Declare(ctx, task.Declaration{Queue: served, Needs: needs})
}

// ReapSelectors removes once the routes of selectors that nobody has used for long.
func (s *Scheduler) ReapSelectors(ctx context.Context) error {
	if s.cfg.Selectors == nil {
		return nil
	}
	declared, err := s.cfg.Selectors.Declared(ctx)
	errs := []error{err}
	for _, d := range declared {
		if s.rec.Now().Sub(d.At) < idleSelector {
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
