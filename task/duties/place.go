package duties

import (
	"fmt"
	"strings"
	"time"

	"millrace/task"
	"millrace/task/job"
	"millrace/task/placement"
	"millrace/task/value"
)

// placeDuty says which component must act on a task that is offered to one node, which may take no
// new work at present.
func placeDuty(t task.Task, on string, around Surroundings, s Settings) Duty {
	s.Watched = time.Time{} // the log tells since when a node takes no work, and a scheduler goes by that
	if around.Serving > 0 {
		return busy(t, around, s, Duty{
			Who: "node " + on, What: fmt.Sprintf("claim it as soon as one of its slots is free: it is meant for node %s", on),
		})
	}
	since := unservedSince(t, around)
	for _, able := range around.Able {
		if able != on {
			to := placement.NodeRoute(able, t.Route.Priority())
			return Duty{
				Who: "scheduler", What: fmt.Sprintf("move it to node %s: node %s takes no work since %s", able, on, value.Clock(since)),
				By: since, Else: "the sweep of any scheduler moves it",
				Command: task.Reassign{From: t.Route, To: to, Reason: "node " + on + " takes no new work"},
			}
		}
	}
	named := on
	if t.Spec != nil && len(t.Spec.Place.Nodes) > 0 {
		named = strings.Join(t.Spec.Place.Nodes, ", ")
	}
	what := "runs as node " + strings.ReplaceAll(named, ", ", " or ")
	return noNodeDuty(t, since, named, Duty{Who: operator, What: startOne(what, since, around, s) + orRelease}, around, s)
}

// orRelease is what an operator may do for a task that waits for some nodes only.
const orRelease = "; or release it to a queue (`millrace task release`)"

// selectorDuty says which component must act on a task that is offered to all nodes that match its
// selector.
func selectorDuty(t task.Task, around Surroundings, s Settings) Duty {
	queue, needs := t.Asks()
	wanted := fmt.Sprintf("%q", needs)
	if queue != "" {
		wanted = fmt.Sprintf("queue %q and %q", queue, needs)
	}
	if around.Serving > 0 {
		return busy(t, around, s, Duty{
			Who: "worker", What: fmt.Sprintf("%s for %s claims it as soon as a slot is free", oneOf(around.Serving, "node", "nodes"), wanted),
		})
	}
	since := unservedSince(t, around)
	what := startOne(job.NeedWords(queue, needs), since, around, s) + orRelease
	return noNodeDuty(t, since, needs.String(), Duty{
		Who: operator, What: what + fmt.Sprintf("; `millrace plan %s` names each node with its reason", t.ID),
	}, around, s)
}

// unservedSince is since when a task has waited without a node that could claim it, in a queue that
// was not paused.
func unservedSince(t task.Task, around Surroundings) time.Time {
	return value.Later(value.Later(t.Since, around.Unserved), around.Resumed)
}

// noNodeDuty applies the task's policy to a wait in which none of its nodes takes work. Named names
// these nodes in words.
func noNodeDuty(t task.Task, since time.Time, named string, d Duty, around Surroundings, s Settings) Duty {
	var p job.Place
	if t.Spec != nil {
		p = t.Spec.Place
	}
	policy := p.NoNode
	if policy == job.NoNodeFallback && t.FellBack() {
		policy = job.NoNodeExpire // it has fallen back, and has nowhere else to go
	}
	switch policy {
	case job.NoNodeFallback:
		return Duty{
			Who:     "scheduler",
			What:    fmt.Sprintf("move it to queue %q: no node that it is meant for takes work since %s", t.FallbackQueue(), value.Clock(since)),
			By:      s.counted(since),
			Else:    "the sweep of any scheduler moves it",
			Command: task.Reassign{From: t.Route, To: t.Fallback(), Reason: "no node that it is meant for takes new work: fallback"},
		}
	case job.NoNodeFail:
		d.By = s.counted(since).Add(s.Slack)
		d.Else = "it ends as abnormal/unplaceable"
		d.Command = task.GiveUp{Reason: value.Unplaced, Detail: around.because("no node that it is meant for takes work: " + named)}
		return d
	case job.NoNodeWait:
		return awaited(t, around, s, d)
	}
	if s.StartDeadline == 0 || !t.StartBy.IsZero() {
		return awaited(t, around, s, d)
	}
	d.By = s.counted(since).Add(s.StartDeadline)
	d.Else = fmt.Sprintf("it ends as abnormal/expired: start timeout of %v with no node to run it", s.StartDeadline)
	d.Command = task.Expire{Detail: around.because(fmt.Sprintf("start timeout: no node that it is meant for took work for %v", s.StartDeadline))}
	return d
}

// awaited bounds a wait by the task's own start deadline, else by the next check, which ends
// nothing: neither a busy queue nor missing nodes are a reason to end the tasks that wait.
func awaited(t task.Task, around Surroundings, s Settings, d Duty) Duty {
	if !t.StartBy.IsZero() {
		d.By = t.StartBy
		d.Else = "it ends as abnormal/expired: pending timeout"
		d.Command = task.Expire{Detail: around.because("pending timeout: not started by " + value.Clock(t.StartBy))}
		return d
	}
	d.By, d.Look = looked(t.Since, around).Add(s.look()), true
	d.Else, d.Command = "the scheduler looks again; nothing ends it (timeout.pending would)", nil
	if d.Who == operator {
		d.Else = "it waits on; nothing ends it (timeout.pending would)"
	}
	return d
}

// busy bounds a wait for nodes that take work and have no free slot: as any wait, and by the time within
// which one of them must take the task, if its job says that.
func busy(t task.Task, around Surroundings, s Settings, d Duty) Duty {
	d = awaited(t, around, s, d)
	by := t.AssignBy()
	if by.IsZero() || around.Windowed || around.Lacks != "" || around.Paused != nil {
		return d
	}
	assign := t.Spec.Timeout.Assign
	by = value.Later(by, value.Later(around.Served, around.Resumed).Add(assign.Std()))
	if !d.Look && !d.By.After(by) {
		return d
	}
	d.By, d.Look = by, false
	d.Else = "it ends as abnormal/expired: assign timeout"
	d.Command = task.Expire{Detail: fmt.Sprintf("assign timeout: no worker took it for %v; %d could have, and none had a free slot", assign, around.Serving)}
	return d
}

// looked is when the surroundings of a task were last read.
func looked(since time.Time, around Surroundings) time.Time {
	if around.Seen.After(since) {
		return around.Seen
	}
	return since
}

// handedDuty says which component must act on a task that is left to nodes that it prefers.
func handedDuty(t task.Task, around Surroundings, s Settings) Duty {
	home := t.Handed.Home.At(t.Route.Priority())
	on, own := t.Route.Node()
	who := "node " + on
	if !own {
		_, needs := t.Asks()
		who = fmt.Sprintf("%s with %s", oneOf(around.Serving, "node", "nodes"), needs)
	}
	if around.Serving == 0 {
		since := unservedSince(t, around)
		return Duty{
			Who:     "scheduler",
			What:    fmt.Sprintf("give it back to all of its nodes: those that it was left to take no work since %s", value.Clock(since)),
			By:      since,
			Else:    "the sweep of any scheduler moves it",
			Command: task.Reassign{From: t.Route, To: home, Reason: "no node that it was left to takes new work"},
		}
	}
	d := Duty{
		Who: who, What: "claim it: " + t.Message,
		By: t.Handed.Until, Else: "any of its nodes may claim it: it goes back to where it was",
		Command: task.Reassign{From: t.Route, To: home, Reason: "the nodes that it was left to have not claimed it in time"},
	}
	if !t.StartBy.IsZero() && t.StartBy.Before(d.By) {
		return awaited(t, around, s, d)
	}
	return d
}

// shunned says in words which nodes leave the task to others, and for how long.
func shunned(t *task.Task) string {
	if !Shuns(t, t.FailedOn) {
		return ""
	}
	nodes, leave := "node "+t.FailedOn, "leaves"
	if len(t.Avoids) > 1 {
		nodes, leave = "nodes "+strings.Join(t.Avoids, ", "), "leave"
	}
	return fmt.Sprintf("; %s, where it failed, %s it to the others for up to %v", nodes, leave, value.Duration(t.Spec.Retry.ShunnedFor()))
}
