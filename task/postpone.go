package task

import (
	"fmt"
	"time"

	"millrace/task/breaker"
	"millrace/task/limit"
	"millrace/task/reason"
)

// AsksBreaker returns what the breaker of the task's job must know about the task.
func (t *Task) AsksBreaker() breaker.Asks {
	return breaker.Asks{Job: t.Job, Task: string(t.ID), StartBy: t.StartBy}
}

// HeldBack returns the command for the task when the breaker of its job does not let it start.
func (t *Task) HeldBack(h *breaker.Hold) Command {
	if h.Fails {
		return GiveUp{Reason: reason.Breaker, Detail: h.Detail}
	}
	return Postpone{After: t.Turn, Reason: reason.Breaker, Detail: h.Detail, Due: h.Until}
}

// OutcomeOf is the end of an epoch's attempt that a fact records; false if the fact records none
// that counts.
func OutcomeOf(e Event, at time.Time, epoch uint64) (breaker.Outcome, bool) {
	o := breaker.Outcome{At: at, Epoch: epoch}
	switch e := e.(type) {
	case AttemptFinished:
	case AttemptFailed:
		o.Failed, o.What = true, e.Class
		if e.Class == reason.Exit && e.Exit != nil {
			o.What = fmt.Sprintf("exit %d", *e.Exit)
		}
	default:
		return o, false
	}
	return o, true
}

// OnNode returns the counters of the task's per_node bounds, named like those of [Work.Counters].
// The error says that a key names a value that the task was not given.
func (w *Work) OnNode() ([]limit.Counter, error) {
	if w.Spec == nil || w.Spec.Parental() { // the bounds apply to its children
		return nil, nil
	}
	var all []limit.Counter
	for i, p := range w.Spec.PerNode {
		name, err := w.counter("job:", "key:", p.Key)
		if err != nil {
			return nil, fmt.Errorf("%s.key: %w", limit.EntryName(reason.PerNode, i, len(w.Spec.PerNode)), err)
		}
		if twin := limit.Named(all, name); twin == nil {
			all = append(all, limit.Counter{Name: name, Max: p.Max})
		} else {
			twin.Max = min(twin.Max, p.Max)
		}
	}
	return all, nil
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
func (t *Task) PassesBack(deliveries int) bool {
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
func (c *Crowd) Postpone(turn uint64, at time.Time) Postpone {
	due := at.Add(crowdSoonest)
	if c.waits(at) {
		due = c.Last.Add(crowdEach)
	}
	if latest := at.Add(crowdLatest); due.After(latest) {
		due = latest
	}
	return Postpone{After: turn, Reason: reason.PerNode, Due: due,
		Detail: fmt.Sprintf("node %s has as many %s as %s allows: %d", c.Node, limit.Words(c.Counter.Name), reason.PerNode, c.Counter.Max)}
}

// waits tells whether earlier postponed tasks make this one wait longer.
func (c *Crowd) waits(at time.Time) bool { return c.Last.Add(crowdEach).After(at.Add(crowdSoonest)) }

// By returns the inputs of the decision at a time.
func (c *Crowd) By(at time.Time) By {
	by := By{Rule: RulePerNode, At: at, Limit: c.Counter.Name, Ends: c.Epochs, Self: &Known{Node: c.Node}}
	if c.waits(at) {
		by.Since = c.Last
	}
	return by
}

// Throttled records that an offered task waits until the rate of its queue admits it. The offer
// becomes stale.
type Throttled struct {
	// Node is the node that got the offer.
	Node string `json:"node,omitzero"`
	// Limit names the rate, as in [Grant].
	Limit string `json:"limit,omitzero"`
}

func (Throttled) isEvent() {}

// RateQueue is the queue whose rate and window apply to the task; "" while it waits for a certain
// node, because nodes' own routes belong to no queue.
func (w *Work) RateQueue() string {
	if _, own := w.Route.Node(); own {
		return ""
	}
	if queue, _ := w.Asks(); queue == "" {
		return "" // the route of named nodes belongs to no queue either
	}
	return w.QueueName()
}

// Throttles tells whether a claim must not start the task, because the rate of the offer's queue
// has not admitted the task in this turn.
func (t *Task) Throttles(c Claim) bool {
	return c.Rate.Since > t.Rated && t.Waiting() && c.After == t.Turn && c.Rate.Queue == t.RateQueue()
}

// Limited tells whether limits manage the task: its own limits, or the rate of its queue, which
// must admit it or has admitted it and waits for its start.
func (t *Task) Limited() bool {
	return t.Throttled || t.Spec.Limited() || t.Rated > 0 && t.State == Pending
}

func (t *Task) throttled(r Recorded) {
	if !t.Waiting() || t.State == Unknown {
		return
	}
	// The bounds on the wait stay.
	t.enter(Held, HoldLimit, "the rate of its queue has to admit it", r)
	t.Holds, t.Throttled = onlyLimit, true
	t.Turn, t.Offered = r.Seq, false
}

// unrate clears the admission by a queue's rate: another turn or another queue needs a new one.
func (t *Task) unrate() { t.Rated, t.Throttled = 0, false }
