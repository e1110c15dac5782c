package task

import (
	"millrace/task/job"
	"millrace/task/where"
)

// PassOn moves a task that waits under an offer to the nodes that can run it.
type PassOn struct {
	// To is where it waits for them, and Asked what that asks for; nil if it is no selector's route.
	To    where.Route
	Asked *where.Asked
	// After is the turn that the offer was made for.
	After  uint64
	Reason string
	// Self is the node that leaves it to them.
	Self Known
}

func (PassOn) isCommand() {}

// PassesOn says where a node leaves the task that cannot run it, because it has no such handler or runs
// no commands: to those of the nodes that the task is meant for that can. False means that it waits
// there already.
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

// asked is what the present route asks of nodes, as a selector's route would: the own route of a node asks
// for that, or for the nodes that the task names.
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

// moved takes over the route to which a fact moves the task, and what that asks of nodes.
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

// Asks is what the task's present route asks of a node: that it serves the
// queue, and is chosen by the selector. On the own route of a node and in a plain
// queue the selector is empty.
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
