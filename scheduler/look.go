package scheduler

import (
	"context"
	"errors"
	"time"

	"millrace/task"
)

// Look does at once what [Scheduler.Run] does when there is news: it releases held tasks whose needs
// have ended, judges breakers, and admits what limits hold. It returns when to look again at the
// latest; zero if only a change requires it. It is for a caller that sets the pace itself, and calls
// it after [Scheduler.Observe].
func (s *Scheduler) Look(ctx context.Context) (next time.Time, err error) {
	for _, id := range s.needs.take() { // one by one, so that their order is always the same
		_, why := s.releaseSome(ctx, []task.ID{id})
		err = errors.Join(err, why)
	}
	err = errors.Join(err, s.judgeBreakers(ctx))
	if s.admitter == nil {
		return next, err
	}
	next, why := s.admitter.look(ctx)
	return next, errors.Join(err, why)
}

// look makes a round of admissions if a change or the time requires one.
func (a *admitter) look(ctx context.Context) (_ time.Time, err error) {
	select {
	case <-a.wake:
	default:
		if a.next.IsZero() || a.next.After(a.rec.Now()) {
			return a.next, nil
		}
	}
	a.next, err = a.Admit(ctx)
	return a.next, err
}

// Enforce makes a task's duty be done if that is overdue, for a caller that sets the pace itself.
func (s *Scheduler) Enforce(ctx context.Context, id task.ID) error {
	nodes, at, err := s.view.Nodes(ctx)
	if err != nil {
		return err
	}
	return s.enforce(ctx, id, s.world(nodes, at), false)
}
