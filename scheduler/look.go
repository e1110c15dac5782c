package scheduler

import (
	"context"
	"errors"
	"time"

	"millrace/events"
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

// reactor is a part of the scheduler that acts on facts. It holds no truth: a check of the read
// model or a sweep finds what it misses.
type reactor interface {
	// observe takes one step at a time, in the order of the log, from one goroutine. It must
	// neither block nor keep the step's record.
	observe(step *events.Step)
}

// batched is a reactor that is told when a batch of steps is over.
type batched interface{ endBatch() }

// Observe takes new facts from the scheduler's read model, so that the scheduler need not read the
// log itself. It may be called before Run. It implements the observer of package projections.
//
// Steps begin again at a lower sequence if the read model is rebuilt, perhaps from a log that has
// lost its last messages. What was known of these is void.
func (s *Scheduler) Observe(steps []events.Step) {
	if len(steps) > 0 {
		if steps[0].Record.Seq <= s.observed {
			s.heard.Store(0)
			s.ticks.forget()
		}
		s.observed = steps[len(steps)-1].Record.Seq
	}
	for i := range steps {
		for _, r := range s.reactors {
			r.observe(&steps[i])
		}
	}
	for _, r := range s.reactors {
		if b, ok := r.(batched); ok {
			b.endBatch()
		}
	}
}
