package task

import (
	"millrace/task/job"
	"millrace/task/where"
)

// PassOn moves a task that waits under an offer to the nodes that can run it.
type PassOn struct {
	// To is the route where the task waits for those nodes. Asked is what that route requires of
	// nodes; nil if it is not a selector's route.
	To    where.Route
	Asked *where.Asked
	// After is the turn for which the offer was made.
	After  uint64
	Reason string
	// Self is the node that passes the task on.
	Self Known
}

func (PassOn) isCommand() {}

// PassesOn says where a node sends the task if it cannot run it: the node has no such handler or
// runs no commands. The task goes to the nodes that it is meant for and that can run it. False
// means that the task already waits there.
func (t *Task) PassesOn(node string) (PassOn, bool) {
	means := t.Spec.Means()
	if means == "" || t.State != Pending {
		return PassOn{}, false
	}
	c := PassOn{After: t.Turn, Self: Known{Node: node}, Reason: "node " + node + " " + job.MeansWords(means)}
	if !t.PreferredUntil().IsZero() { // those that it prefers cannot run it
		c.To, c.Asked = t.Handed.Home.At(t.Route.Priority()), t.Handed.Asked
		return c, true
	}
	asked := t.asked()
	for _, r := range asked.Needs {
		if r.Key == means {
			return PassOn{}, false
		}
	}
	c.Asked = asked.With(where.Requirement{Key: means, Op: where.OpExists})
	c.To = c.Asked.Route(t.Route.Priority())
	return c, true
}

// asked returns what the present route requires of nodes, in the form of a selector's route. For a
// node's own route it returns the task's queue and selector, or the nodes that the task names.
func (t *Task) asked() where.Asked {
	on, own := t.Route.Node()
	if !own {
		queue, needs := t.Asks()
		if !t.Route.Selected() {
			needs = t.Spec.Room()
		}
		return where.Asked{Queue: queue, Needs: needs}
	}
	nodes := []string{on}
	if t.Spec != nil && len(t.Spec.Place.Nodes) > 0 {
		nodes = t.Spec.Place.Nodes
	}
	return where.Asked{Needs: job.NamedNeeds(nodes, t.Spec)}
}

func passOn(t *Task, c PassOn) (Event, error) {
	switch {
	case t.State.Terminal():
		return nil, ErrEnded
	case t.State != Pending || t.Turn != c.After:
		return nil, ErrStale
	}
	if err := c.To.Validate(); err != nil {
		return nil, err
	}
	return Reassigned{From: t.Route, To: c.To, Asked: c.Asked, Reason: c.Reason}, nil
}

// moved takes over the route to which a fact moves the task, and what that route requires of nodes.
func (t *Task) moved(e Reassigned) {
	asked := e.Asked
	switch {
	case asked != nil || !e.To.Selected():
	case e.To.Queue() == t.Route.Queue(): // another priority
		asked = t.Asked
	case t.Handed != nil && e.To.Queue() == t.Handed.Home.Queue():
		asked = t.Handed.Asked
	}
	t.handed(e)
	t.Route, t.Asked = e.To, asked
}

// Asks returns what the task's present route requires of a node: to serve the queue and to match
// the selector. On a node's own route and in a plain queue the selector is empty.
func (w *Work) Asks() (queue string, needs where.Selector) {
	if a := w.Asked; a != nil && w.Route.Selected() && where.SelectorQueue(a.Queue, a.Needs) == w.Route.Queue() {
		return a.Queue, a.Needs
	}
	if !w.Route.Selected() || w.Spec == nil {
		return w.Route.Queue(), nil
	}
	if p := &w.Spec.Place; p.Named() {
		if needs = job.NamedNeeds(p.Nodes, w.Spec); where.SelectorQueue("", needs) == w.Route.Queue() {
			return "", needs
		}
	}
	queue = w.Spec.Place.Queue
	if queue == "" {
		queue = where.DefaultQueue
	}
	if needs = w.Spec.Needs(); where.SelectorQueue(queue, needs) == w.Route.Queue() {
		return queue, needs
	}
	if preferred, ok := w.Spec.Preferred(queue, w.Route); ok {
		return queue, preferred
	}
	needs = w.Spec.Room() // it has fallen back, or was released
	return queue, needs
}
