package task

import (
	"fmt"
	"time"

	"millrace/task/limit"
	"millrace/task/reason"
)

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
