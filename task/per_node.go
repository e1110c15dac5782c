package task

import (
	"fmt"
	"time"

	"millrace/task/value"
)

// A spec may bound how many of its tasks run on one node at a time: a choice, made by the node that is offered the task. It
// alone knows what it runs, at that moment and with no scheduler alive. What has no place there goes back for another node at once, a few
// times. If nobody takes it, the node that had it last postpones it, so that it holds up nothing that waits behind it.

// PerNode bounds how many tasks may run on one node at a time: of one job, or with a key of all that have the key's
// value in common.
type PerNode struct {
	// Max is how many, 1 or more. It is the task's own: a task starts where fewer than its Max of the same counter run.
	Max int `json:"max,omitempty"`
	// Key is as that of [Concurrency].
	Key string `json:"key,omitempty"`
}

// PerNodes are the bounds per node that a task stands under: it starts where all of them have a place for it. In JSON
// one of them may stand without the list.
type PerNodes []PerNode

// MarshalJSON writes a single one without the list.
func (p PerNodes) MarshalJSON() ([]byte, error) { return marshalFew(p) }

// UnmarshalJSON reads a list, or one without it; {} is an empty list.
func (p *PerNodes) UnmarshalJSON(data []byte) (err error) {
	*p, err = unmarshalFew[PerNode](data)
	return err
}

func (p PerNodes) validate() error {
	if len(p) > MaxLimits {
		return fmt.Errorf("%s has %d entries, want at most %d", ReasonPerNode, len(p), MaxLimits)
	}
	var all error
	for i, one := range p {
		field := entryName(ReasonPerNode, i, len(p))
		switch {
		case one.Max < 0:
			all = value.JoinFaults(all, fmt.Errorf("%s.max is %d, want 1 or more", field, one.Max))
		case one.Max == 0:
			all = value.JoinFaults(all, fmt.Errorf("%s.max is missing: how many may run on one node", field))
		}
		all = value.JoinFaults(all, validKey(field+".key", one.Key))
	}
	return all
}

// OnNode returns the counters of which each node may run so many tasks, named as those of [Work.Counters]. The error says that a key
// names something that the task was not given.
func (w *Work) OnNode() ([]Counter, error) {
	if w.Spec == nil || w.Spec.Parental() { // its children stand under them
		return nil, nil
	}
	var all []Counter
	for i, p := range w.Spec.PerNode {
		name, err := w.counter("job:", "key:", p.Key)
		if err != nil {
			return nil, fmt.Errorf("%s.key: %w", entryName(ReasonPerNode, i, len(w.Spec.PerNode)), err)
		}
		if twin := counterNamed(all, name); twin == nil {
			all = append(all, Counter{Name: name, Max: p.Max})
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
	Counter Counter
	// Epochs are the attempts that run there under it.
	Epochs []uint64
	// Last is when the last one comes again that the node has postponed under it; zero if there is none.
	Last time.Time
}

// Crowded tells whether a node that runs these attempts under a counter has no place for one more.
func (c Counter) Crowded(epochs []uint64) bool { return len(epochs) >= c.Max }

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
	return Postpone{After: turn, Reason: ReasonPerNode, Due: due,
		Detail: fmt.Sprintf("node %s has as many %s as %s allows: %d", c.Node, LimitWords(c.Counter.Name), ReasonPerNode, c.Counter.Max)}
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
