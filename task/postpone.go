package task

import (
	"fmt"
	"time"

	"millrace/task/breaker"
	"millrace/task/limit"
	"millrace/task/reason"
)

// AsksBreaker is what the breaker of the task's job has to know of it.
func (t *Task) AsksBreaker() breaker.Asks {
	return breaker.Asks{Job: t.Job, Task: string(t.ID), StartBy: t.StartBy}
}

// HeldBack is the command that follows for the task when the breaker of its job does not let it start.
func (t *Task) HeldBack(h *breaker.Hold) Command {
	if h.Fails {
		return GiveUp{Reason: reason.Breaker, Detail: h.Detail}
	}
	return Postpone{After: t.Turn, Reason: reason.Breaker, Detail: h.Detail, Due: h.Until}
}

// OutcomeOf is the end of the attempt of an epoch that a fact records; false if it is none that counts.
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

// OnNode returns the counters of which each node may run so many tasks, named as those of [Work.Counters]. The error says that a key
// names something that the task was not given.
func (w *Work) OnNode() ([]limit.Counter, error) {
	if w.Spec == nil || w.Spec.Parental() { // its children stand under them
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

// Crowd is why a node has no place for a task.
type Crowd struct {
	Node string
	// Counter is the bound that has none.
	Counter limit.Counter
	// Epochs are the attempts that run there under it.
	Epochs []uint64
	// Last is when the last one comes again that the node has postponed under it; zero if there is none.
	Last time.Time
}

// maxPasses is how often an offer goes back at once for the sake of other nodes.
const maxPasses = 3

// PassesBack tells whether the offer of a task for which a node has no place goes back for another node. Nobody else takes
// what lies on the node's own route.
func (t *Task) PassesBack(deliveries int) bool {
	_, own := t.Route.Node()
	return !own && deliveries <= maxPasses
}

// Times of what is postponed for want of a place on a node.
const (
	crowdSoonest = time.Second
	crowdLatest  = 10 * time.Minute
	crowdEach    = 50 * time.Millisecond // so one node asks for no more than twenty in a second, however many wait
)

// Postpone is what is asked for a task in place of a start: it comes again after those that wait already, to any node.
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

// waits tells whether others make the task wait longer.
func (c *Crowd) waits(at time.Time) bool { return c.Last.Add(crowdEach).After(at.Add(crowdSoonest)) }

// By is what the decision was made by at a time.
func (c *Crowd) By(at time.Time) By {
	by := By{Rule: RulePerNode, At: at, Limit: c.Counter.Name, Ends: c.Epochs, Self: &Known{Node: c.Node}}
	if c.waits(at) {
		by.Since = c.Last
	}
	return by
}

// Throttled says that a task which was offered waits until the rate of its queue admits it. The offer is
// stale from then on.
type Throttled struct {
	// Node is who was offered it.
	Node string `json:"node,omitzero"`
	// Limit names the rate, as in [Grant].
	Limit string `json:"limit,omitzero"`
}

func (Throttled) isEvent() {}

// RateQueue is the queue whose rate and window hold for the task; "" while it waits for a certain node, for the
// routes of nodes belong to no queue.
func (w *Work) RateQueue() string {
	if _, own := w.Route.Node(); own {
		return ""
	}
	if queue, _ := w.Asks(); queue == "" {
		return "" // nor is the route of nodes that are named of any
	}
	return w.QueueName()
}

// Throttles tells whether a claim is not to start the task, because the rate of the queue from
// which the offer came has not admitted it in this turn.
func (t *Task) Throttles(c Claim) bool {
	return c.Rate.Since > t.Rated && t.Waiting() && c.After == t.Turn && c.Rate.Queue == t.RateQueue()
}

// Limited tells whether limits look after the task: its own, or the rate of its queue, which has to admit it
// or has and waits for its start.
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

// unrate forgets what the rate of a queue has said: another turn, or another queue, asks it anew.
func (t *Task) unrate() { t.Rated, t.Throttled = 0, false }
