package simulation

import (
	"slices"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/placement"
)

// causes are the facts of a story that others refer to.
type causes struct {
	born     bool
	dues     []time.Time            // of its births
	route    placement.Route        // where it waits
	due      time.Time              // of the present turn
	offered  bool                   // in the present turn
	turn     uint64                 // the fact since which it waits; 0 since its birth
	plans    map[uint64]plan        // by the fact that made them
	offers   map[uint64]task.Queued // by sequence; a birth is an offer for turn 0
	attempts map[uint64]int         // their numbers by epoch
	attempt  int                    // the latest
	open     bool                   // it has not ended
	parent   bool                   // the task has children, and is open in place of attempts
	asked    bool                   // its stop was requested
}

// plan is what the log says of the next attempt.
type plan struct {
	attempt int
	due     time.Time   // zero if it was not planned: it is to be offered at once
	dues    []time.Time // other times that are possible
}

// causeFirst checks that each fact refers only to facts before it, and agrees with them.
func causeFirst(s story) error {
	c := &causes{plans: map[uint64]plan{}, offers: map[uint64]task.Queued{}, attempts: map[uint64]int{}}
	return s.told(c.visit)
}

func (c *causes) visit(r *events.Record) error {
	if birth, ok := r.Fact.Event.(task.Submitted); ok {
		if !c.born {
			c.route, c.due, c.offered = birth.Route, birth.Due, birth.Offers()
			c.parent = birth.Spec.Parental()
			c.open = c.parent
		}
		if !c.born && r.Kind == events.KindChain { // an offer that refers to it follows
			c.waits(r.Seq, birth.Due)
		}
		c.born = true
		c.dues = append(c.dues, birth.Due)
		if birth.Offers() {
			c.offers[r.Seq] = task.Queued{Attempt: 1}
		}
		return nil
	}
	if !c.born {
		return broken(errI7, "%s before the birth", r.Fact.Type)
	}
	switch e := r.Fact.Event.(type) {
	case task.Queued:
		return c.queued(e, r)
	case task.Due:
		return c.fired(e, r)
	case task.AttemptStarted:
		return c.started(e, r)
	case task.AttemptFinished:
		return c.endOf(e.Epoch, e.Attempt)
	case task.AttemptReleased:
		c.waits(r.Seq, time.Time{})
		return c.endOf(e.Epoch, e.Attempt)
	case task.AttemptParked:
		due := time.Time{}
		if e.Park.Kind == task.StepSleep || e.Park.Kind == task.StepDo {
			due = e.Park.Until
		}
		c.waits(r.Seq, due)
		return c.endOf(e.Epoch, e.Attempt)
	case task.AttemptLost:
		c.waits(r.Seq, time.Time{})
		return c.endOf(e.Epoch, e.Attempt)
	case task.AttemptFailed:
		if e.Retry != nil {
			if e.Retry.Attempt != e.Attempt+1 {
				return broken(errI7, "attempt %d is followed by a plan for attempt %d", e.Attempt, e.Retry.Attempt)
			}
			c.waits(r.Seq, e.Retry.Due)
		}
		return c.endOf(e.Epoch, e.Attempt)
	case task.AttemptLate:
		if _, ok := c.attempts[e.Epoch]; !ok {
			return broken(errI7, "a late word of epoch %d, which never started", e.Epoch)
		}
	case task.CancelRequested:
		if !c.open {
			return broken(errI7, "asked to stop, and nothing runs")
		}
		c.asked = true
	case task.CancelConfirmed:
		if e.Epoch == 0 {
			return nil
		}
		if !c.asked {
			return broken(errI7, "epoch %d stopped because of a cancel that nobody asked for", e.Epoch)
		}
		return c.endOf(e.Epoch, c.attempts[e.Epoch])
	case task.Reassigned:
		return c.moved(e, r)
	case task.Postponed:
		if c.open {
			return broken(errI7, "postponed while attempt %d is open", c.attempt)
		}
		c.waits(r.Seq, e.Due)
	case task.Collapsed:
		if c.open {
			return broken(errI7, "moved for another submission while attempt %d is open", c.attempt)
		}
		c.waits(r.Seq, e.Due)
	case task.Throttled:
		if c.open || !c.offered {
			return broken(errI7, "put back, and it is not offered")
		}
		c.waitsOn(r.Seq)
	case task.GivenUp, task.Concluded:
		c.open = false
	case task.Reopened:
		c.waits(r.Seq, time.Time{})
		c.open = c.parent
	case task.Unheld:
		c.waits(r.Seq, c.due)
	}
	return nil
}

// waits begins a new turn.
func (c *causes) waits(since uint64, due time.Time) {
	c.turn, c.due, c.offered = since, due, false
	c.plans[since] = plan{attempt: c.attempt + 1, due: due}
}

// moved: a task is moved from where it waits, while it waits.
func (c *causes) moved(e task.Reassigned, r *events.Record) error {
	switch {
	case c.open:
		return broken(errI7, "moved while attempt %d is open", c.attempt)
	case e.From != c.route:
		return broken(errI7, "moved from %s, and it waits on %s", e.From, c.route)
	case e.To == e.From:
		return broken(errI7, "moved to where it was, %s", e.To)
	}
	c.route = e.To
	c.waitsOn(r.Seq)
	return nil
}

// waitsOn begins a new turn for the same attempt and due as before.
func (c *causes) waitsOn(since uint64) {
	before := c.plans[c.turn].dues
	if c.turn == 0 {
		before = c.dues // of births that differ, either may have been read
	}
	c.waits(since, c.due)
	p := c.plans[since]
	p.dues = before
	c.plans[since] = p
}

func (c *causes) queued(e task.Queued, r *events.Record) error {
	if e.Due.After(r.Stored.Add(clockError)) { // a submitter that places it goes by its own clock
		return broken(errI7, "offered %v before it is due", e.Due.Sub(r.Stored))
	}
	c.offers[r.Seq] = e
	if e.After == c.turn && e.Route != c.route && c.route != "" {
		return broken(errI7, "offered on %s, and it waits on %s", e.Route, c.route)
	}
	if e.After == c.turn && !c.offered {
		c.due, c.offered = e.Due, true // of two births that differ, the one offered first
	}
	if e.After == 0 {
		for _, due := range c.dues {
			if due.Equal(e.Due) {
				return nil
			}
		}
		return broken(errI7, "an offer since the birth, due %v, and no birth says so", e.Due)
	}
	p, ok := c.plans[e.After]
	switch {
	case !ok:
		return broken(errI7, "an offer that follows from %d, which is no earlier turn of this task", e.After)
	case e.Attempt != p.attempt:
		return broken(errI7, "attempt %d is offered, and %d was planned at %d", e.Attempt, p.attempt, e.After)
	case !e.Due.Equal(p.due) && !slices.ContainsFunc(p.dues, e.Due.Equal):
		return broken(errI7, "offered for %v, and planned for %v at %d", e.Due, p.due, e.After)
	}
	return nil
}

// fired: a timer brings a reference to a turn that was planned, and not before that is due.
func (c *causes) fired(e task.Due, r *events.Record) error {
	p := c.plans[e.After]
	return c.queued(task.Queued{Work: task.Work{Route: e.Route}, Attempt: max(p.attempt, 1), After: e.After, Due: e.Due}, r)
}

func (c *causes) started(e task.AttemptStarted, r *events.Record) error {
	offer, ok := c.offers[e.Offer]
	switch {
	case !ok:
		return broken(errI7, "started by offer %d, which is no earlier offer of this task", e.Offer)
	case offer.After != c.turn:
		return broken(errI7, "started by offer %d, made for the turn of %d; it is the turn of %d", e.Offer, offer.After, c.turn)
	case e.Attempt != c.attempt+1:
		return broken(errI7, "attempt %d starts after attempt %d", e.Attempt, c.attempt)
	case e.TookOver != nil && c.attempts[e.TookOver.Epoch] != c.attempt:
		return broken(errI7, "it takes over epoch %d, which is not the attempt before", e.TookOver.Epoch)
	}
	c.attempt, c.open, c.asked = e.Attempt, true, false
	c.attempts[r.Seq] = e.Attempt
	return nil
}

// endOf records the end of the attempt with an epoch.
func (c *causes) endOf(epoch uint64, number int) error {
	started, ok := c.attempts[epoch]
	switch {
	case !ok:
		return broken(errI7, "the end of epoch %d, which never started", epoch)
	case started != number:
		return broken(errI7, "the end of attempt %d under epoch %d, which was attempt %d", number, epoch, started)
	}
	c.open = false
	return nil
}
