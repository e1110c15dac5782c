package scheduler

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/duties"
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
	s.needs.handled()
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
		if s.cfg.Told != nil {
			s.cfg.Told()
		}
	}
	for _, r := range s.reactors {
		if b, ok := r.(batched); ok {
			b.endBatch()
		}
	}
}

// Repair is a kind of fault that a sweep found and repaired.
type Repair string

// The kinds of repairs.
const (
	// RepairOffer: a pending task lacked its offer, which another component should have placed.
	RepairOffer Repair = "offer"
	// RepairTimer: the timer of a scheduled or retrying task was gone, or had not fired in time.
	RepairTimer Repair = "timer"
	// RepairSession: a task was running under a session that had ended long ago.
	RepairSession Repair = "session"
	// RepairStop: a task was past its run timeout or the deadline of its cancel, and its node had
	// not reported that.
	RepairStop Repair = "stop"
	// RepairMove: a task waited long for a node that takes no work, and its rules move it.
	RepairMove Repair = "move"
	// RepairHold: the hold of a task had opened, and the task was not released.
	RepairHold Repair = "hold"
	// RepairDead: an offer had been handed out so often that the server gave it up.
	RepairDead Repair = "dead"
	// RepairSchedule: a schedule lacked a timer of its present revision, or an admitted tick lacked
	// its task.
	RepairSchedule Repair = "schedule"
	// RepairChild: a parent lacked a child, which its submitter had not made.
	RepairChild Repair = "child"
)

// RepairKinds lists all kinds.
var RepairKinds = []Repair{RepairOffer, RepairTimer, RepairSession, RepairStop, RepairMove, RepairHold,
	RepairDead, RepairChild, RepairSchedule}

// repairs counts by kind.
type repairs struct {
	mu    sync.Mutex
	count map[Repair]int // guarded by mu
}

func (r *repairs) add(kind Repair) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.count == nil {
		r.count = map[Repair]int{}
	}
	r.count[kind]++
}

// all returns the counts; a missing kind is 0.
func (r *repairs) all() map[Repair]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.count)
}

// kindOf is the kind of repair if the sweep does a task's overdue duty; "" if only a deadline has
// passed.
func kindOf(t *task.Task, d *duties.Duty, long bool) Repair {
	_, expires := d.Command.(task.Expire)
	switch {
	case t.Waiting() && (expires || len(t.Holds) > 0), t.Live() && t.Epoch == 0:
		return "" // only the scheduler handles that
	case t.State == task.Scheduled || t.State == task.Retrying:
		return RepairTimer
	case t.State == task.Pending && !t.Offered:
		return RepairOffer
	case t.Live() && d.Who == "scheduler":
		if long {
			return RepairSession
		}
	case t.Live():
		return RepairStop
	case t.State == task.Pending && long:
		if move, ok := d.Command.(task.Reassign); ok {
			// A move to another node may have become possible only a moment ago.
			if _, own := move.To.Node(); !own {
				return RepairMove
			}
		}
	}
	return ""
}
