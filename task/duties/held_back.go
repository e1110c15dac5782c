package duties

import (
	"fmt"
	"time"

	"millrace/task"
	"millrace/task/limit"
	"millrace/task/value"
)

// Admits says what the breaker of the task's job answers, and what a fact about it was decided by.
func Admits(t *task.Task, c limit.Circuit, now time.Time, chance float64) (limit.Admission, *task.By) {
	b := t.Spec.Breaker
	return b.Admit(c, limit.Asks{Job: t.Job, Task: string(t.ID), StartBy: t.StartBy}, now, chance), &task.By{Policy: b}
}

// OutcomeOf is the end of an epoch's attempt that a fact records; false if the fact records none
// that counts.
func OutcomeOf(e task.Event, at time.Time, epoch uint64) (limit.Outcome, bool) {
	o := limit.Outcome{At: at, Epoch: epoch}
	switch e := e.(type) {
	case task.AttemptFinished:
	case task.AttemptFailed:
		o.Failed, o.What = true, e.Class
		if e.Class == value.Exit && e.Exit != nil {
			o.What = fmt.Sprintf("exit %d", *e.Exit)
		}
	default:
		return o, false
	}
	return o, true
}

// Crowd explains why a node has no place for a task.
type Crowd struct {
	Node string
	// Counter is the bound without a free place.
	Counter limit.Counter
	// Epochs are the attempts that run on the node under that bound.
	Epochs []uint64
	// Last is when the last task that the node has postponed under it comes again; zero if there is
	// none.
	Last time.Time
}

// maxPasses is how often an offer goes back at once in favour of other nodes.
const maxPasses = 3

// PassesBack tells whether a node without a place returns the offer of a task for another node. It
// keeps an offer from its own route, because no other node pulls from there.
func PassesBack(t *task.Task, deliveries int) bool {
	_, own := t.Route.Node()
	return !own && deliveries <= maxPasses
}

// Delays of tasks that are postponed for want of a place on a node.
const (
	crowdSoonest = time.Second
	crowdLatest  = 10 * time.Minute
	crowdEach    = 50 * time.Millisecond // so one node gets at most 20 of them a second, however many wait
)

// Postpone returns the command that replaces a start: the task comes again, for any node, after
// those that wait already.
func (c *Crowd) Postpone(turn uint64, at time.Time) task.Postpone {
	due := at.Add(crowdSoonest)
	if c.waits(at) {
		due = c.Last.Add(crowdEach)
	}
	if latest := at.Add(crowdLatest); due.After(latest) {
		due = latest
	}
	return task.Postpone{After: turn, Reason: value.PerNode, Due: due,
		Detail: fmt.Sprintf("node %s has as many %s as %s allows: %d", c.Node, limit.Words(c.Counter.Name), value.PerNode, c.Counter.Max)}
}

// waits tells whether earlier postponed tasks make this one wait longer.
func (c *Crowd) waits(at time.Time) bool { return c.Last.Add(crowdEach).After(at.Add(crowdSoonest)) }

// By returns the inputs of the decision at a time.
func (c *Crowd) By(at time.Time) task.By {
	by := task.By{Rule: value.PerNode, At: at, Limit: c.Counter.Name, Ends: c.Epochs, Self: &task.Known{Node: c.Node}}
	if c.waits(at) {
		by.Since = c.Last
	}
	return by
}
