package task

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/task/job"
	"millrace/task/reason"
	"millrace/task/value"
	"millrace/task/where"
)

// yieldRound is how many deliveries each named node gets before the next named node may take the
// task.
const yieldRound = 2

// maxYields bounds how often an offer goes back to the server in favour of preferred nodes.
const maxYields = 8

// Yields tells whether a node returns an offer of the task, so that a free node that the task names
// earlier can take it. The server hands an offer to the consumer that has waited longest. After a
// few returns, each of which lasts no longer than messages travel, the node takes the task.
func (t *Task) Yields(node string, deliveries int) bool {
	if t.Spec == nil || t.State != Pending || !t.Spec.Place.Named() || len(t.Spec.Place.Nodes) < 2 || !t.Route.Selected() {
		return false
	}
	return deliveries <= min(slices.Index(t.Spec.Place.Nodes, node)*yieldRound, maxYields)
}

// sharedName is the queue to which a task is released.
func (w *Work) sharedName() string {
	if w.Spec != nil && w.Spec.Place.Queue != "" {
		return w.Spec.Place.Queue
	}
	if w.Asked != nil && w.Asked.Queue != "" {
		return w.Asked.Queue
	}
	return where.DefaultQueue
}

// QueueName is the display name of the queue in which the task waits. For a queue of nodes with
// certain labels it is the queue that these nodes serve, and for the route of one node it is the
// name from [where.NodeQueue].
func (w *Work) QueueName() string {
	if w.Route.Selected() {
		return w.sharedName()
	}
	return w.Route.Queue()
}

// WaitsIn is the display name of where the task waits: the name of its queue, or "node w3" if it is
// meant for one node.
func (w *Work) WaitsIn() string {
	if on, own := w.Route.Node(); own {
		return "node " + on
	}
	return w.QueueName()
}

// shared is the route to which a task is released: that queue, or the nodes in it with enough
// slots.
func (t *Task) shared() where.Route {
	queue := t.sharedName()
	if room := t.Spec.Room(); len(room) > 0 {
		return where.SelectorRoute(queue, room, t.Route.Priority())
	}
	return where.QueueRoute(queue, t.Route.Priority())
}

// atShared tells whether the task waits in its shared queue, or for the nodes of that queue that
// can run it.
func (t *Task) atShared() bool {
	if t.Route == t.shared() {
		return true
	}
	if t.Spec.Means() == "" {
		return false
	}
	asked := where.Asked{Queue: t.sharedName(), Needs: t.Spec.Room()}.With(where.Requirement{Key: t.Spec.Means(), Op: where.OpExists})
	return t.Route == asked.Route(t.Route.Priority())
}

// placeDuty says which component must act on a task that is offered to one node, which may take no
// new work at present.
func placeDuty(t Task, on string, around Surroundings, s Settings) Duty {
	if around.Serving > 0 {
		return awaited(t, around, s, Duty{
			Who: "node " + on, What: fmt.Sprintf("claim it as soon as one of its slots is free: it is meant for node %s", on),
		})
	}
	since := unservedSince(t, around)
	for _, able := range around.Able {
		if able != on {
			to := where.NodeRoute(able, t.Route.Priority())
			return Duty{
				Who: "scheduler", What: fmt.Sprintf("move it to node %s: node %s takes no work since %s", able, on, value.Clock(since)),
				By: since, Else: "the sweep of any scheduler moves it",
				Command: Reassign{From: t.Route, To: to, Reason: "node " + on + " takes no new work"},
			}
		}
	}
	whom, named := "node "+on, on
	if t.Spec != nil && len(t.Spec.Place.Nodes) > 0 {
		named = strings.Join(t.Spec.Place.Nodes, ", ")
	}
	if t.Spec != nil && len(t.Spec.Place.Nodes) > 1 {
		whom = "one of the nodes " + named
	}
	return noNodeDuty(t, since, named, Duty{
		Who: "operator", What: fmt.Sprintf("bring %s back, or release the task: no node that it is meant for takes work since %s", whom, value.Clock(since)),
	}, around, s)
}

// selectorDuty says which component must act on a task that is offered to all nodes that match its
// selector.
func selectorDuty(t Task, around Surroundings, s Settings) Duty {
	queue, needs := t.Asks()
	wanted := fmt.Sprintf("%q", needs)
	if queue != "" {
		wanted = fmt.Sprintf("queue %q and %q", queue, needs)
	}
	if around.Serving > 0 {
		return awaited(t, around, s, Duty{
			Who: "worker", What: fmt.Sprintf("%s for %s claims it as soon as a slot is free", oneOf(around.Serving, "node", "nodes"), wanted),
		})
	}
	since := unservedSince(t, around)
	what := fmt.Sprintf("bring up a node for %s, or release the task: since %s none takes work", wanted, value.Clock(since))
	if around.Lacks != "" {
		what = fmt.Sprintf("bring up a node for %s, with a program that can run it: %s", wanted, around.Lacks)
	}
	return noNodeDuty(t, since, needs.String(), Duty{
		Who: "operator", What: what + fmt.Sprintf("; `millrace plan %s` names each node with its reason", t.ID),
	}, around, s)
}

// unservedSince is since when a task has waited without a node that could claim it.
func unservedSince(t Task, around Surroundings) time.Time {
	if around.Unserved.After(t.Since) {
		return around.Unserved
	}
	return t.Since
}

// noNodeDuty applies the task's policy to a wait in which none of its nodes takes work. Named names
// these nodes in words.
func noNodeDuty(t Task, since time.Time, named string, d Duty, around Surroundings, s Settings) Duty {
	var p job.Place
	if t.Spec != nil {
		p = t.Spec.Place
	}
	policy := p.NoNode
	if policy == job.NoNodeFallback && t.atShared() {
		policy = job.NoNodeExpire // it has fallen back, and has nowhere else to go
	}
	switch policy {
	case job.NoNodeFallback:
		return Duty{
			Who: "scheduler", What: fmt.Sprintf("move it to queue %q: no node that it is meant for takes work since %s", t.sharedName(), value.Clock(since)),
			By: since, Else: "the sweep of any scheduler moves it",
			Command: Reassign{From: t.Route, To: t.shared(), Reason: "no node that it is meant for takes new work: fallback"},
		}
	case job.NoNodeFail:
		d.By = since.Add(s.Slack)
		d.Else = "it ends as abnormal/unplaceable"
		d.Command = GiveUp{Reason: reason.Unplaced, Detail: "no node that it is meant for takes work: " + named}
		return d
	case job.NoNodeWait:
		return awaited(t, around, s, d)
	}
	d.By = since.Add(s.StartDeadline)
	d.Else = fmt.Sprintf("it ends as abnormal/expired: start timeout of %v with no node to run it", s.StartDeadline)
	d.Command = Expire{Detail: fmt.Sprintf("start timeout: no node that it is meant for took work for %v", s.StartDeadline)}
	if t.StartBy.IsZero() {
		return d
	}
	return awaited(t, around, s, d)
}

// awaited bounds a wait for nodes that are expected to come: by the task's own start deadline, else
// by the next check. A busy queue is no reason to end the tasks that wait in it.
func awaited(t Task, around Surroundings, s Settings, d Duty) Duty {
	if !t.StartBy.IsZero() {
		d.By = t.StartBy
		d.Else = "it ends as abnormal/expired: pending timeout"
		d.Command = Expire{Detail: "pending timeout: not started by " + value.Clock(t.StartBy)}
		return d
	}
	d.By, d.Look = looked(t.Since, around).Add(s.look()), true
	d.Else, d.Command = "the scheduler looks again; nothing ends it (timeout.pending would)", nil
	return d
}

// looked is when the surroundings of a task were last read.
func looked(since time.Time, around Surroundings) time.Time {
	if around.Seen.After(since) {
		return around.Seen
	}
	return since
}
