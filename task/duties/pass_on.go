package duties

import (
	"millrace/task"
	"millrace/task/job"
	"millrace/task/placement"
)

// PassesOn says where a node sends the task if it cannot run it: the node has no such handler or
// runs no commands. The task goes to the nodes that it is meant for and that can run it. False
// means that the task already waits there.
func PassesOn(t *task.Task, node string) (task.PassOn, bool) {
	means := t.Spec.Means()
	if means == "" || t.State != task.Pending {
		return task.PassOn{}, false
	}
	c := task.PassOn{After: t.Turn, Self: task.Known{Node: node}, Reason: "node " + node + " " + job.MeansWords(means)}
	if !t.PreferredUntil().IsZero() { // those that it prefers cannot run it
		c.To, c.Asked = t.Handed.Home.At(t.Route.Priority()), t.Handed.Asked
		return c, true
	}
	asked := askedOf(t)
	for _, r := range asked.Needs {
		if r.Key == means {
			return task.PassOn{}, false
		}
	}
	c.Asked = asked.With(placement.Requirement{Key: means, Op: placement.OpExists})
	c.To = c.Asked.Route(t.Route.Priority())
	return c, true
}

// askedOf returns what the present route requires of nodes, in the form of a selector's route. For a
// node's own route it returns the task's queue and selector, or the nodes that the task names.
func askedOf(t *task.Task) placement.Asked {
	on, own := t.Route.Node()
	if !own {
		queue, needs := t.Asks()
		if !t.Route.Selected() {
			needs = t.Spec.Room()
		}
		return placement.Asked{Queue: queue, Needs: needs}
	}
	nodes := []string{on}
	if t.Spec != nil && len(t.Spec.Place.Nodes) > 0 {
		nodes = t.Spec.Place.Nodes
	}
	return placement.Asked{Needs: job.NamedNeeds(nodes, t.Spec)}
}
