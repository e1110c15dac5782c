package task

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Place says where a task may run. The zero value is: wherever its queue is served.
//
// A task with named nodes is born on the route of the first of them, whatever
// is known of that node: nothing is bound to a list that was read earlier. Where
// it waits is changed by facts only ([Reassigned]), when that node takes no new
// work: to the first of the others that does, else as NoNode says.
type Place struct {
	// Mode is any or nodes. Default: nodes if Nodes are named, else any.
	Mode string `json:"mode,omitempty"`
	// Nodes are those that may run it, the preferred first. At most [MaxPlaceNodes].
	Nodes []string `json:"nodes,omitempty"`
	// NoNode is what happens while none of Nodes takes new work. Default expire.
	NoNode string `json:"no_node,omitempty"`
	// Queue is the shared queue to which it is released or falls back. Default: the job's.
	Queue string `json:"queue,omitempty"`
}

// Modes of [Place].
const (
	PlaceAny   = "any"
	PlaceNodes = "nodes"
)

// What happens to a task while none of its nodes takes new work.
const (
	// NoNodeExpire ends it abnormal/expired when its start deadline passes:
	// timeout.pending, else the one of the settings.
	NoNodeExpire = "expire"
	// NoNodeWait keeps it until a node returns, at most for timeout.pending.
	NoNodeWait = "wait"
	// NoNodeFallback moves it to the shared queue.
	NoNodeFallback = "fallback"
	// NoNodeFail ends it abnormal/unplaceable.
	NoNodeFail = "fail"
)

// NoNodes lists the policies.
var NoNodes = []string{NoNodeExpire, NoNodeWait, NoNodeFallback, NoNodeFail}

// MaxPlaceNodes is how many nodes a task may name.
const MaxPlaceNodes = 64

// Targeted tells whether the task is meant for certain nodes.
func (p *Place) Targeted() bool { return len(p.Nodes) > 0 }

func (p *Place) validate() error {
	switch p.Mode {
	case "", PlaceAny, PlaceNodes:
	case "all":
		return errors.New("place.mode is \"all\", which this version does not support: submit a task for each node")
	default:
		return fmt.Errorf("place.mode is %q, want %s or %s", p.Mode, PlaceAny, PlaceNodes)
	}
	switch {
	case p.Mode == PlaceNodes && len(p.Nodes) == 0:
		return errors.New("place.nodes: name at least one node, or leave place.mode out")
	case p.Mode == PlaceAny && len(p.Nodes) > 0:
		return errors.New("place.mode is \"any\", and place.nodes names some; leave one of them out")
	case len(p.Nodes) > MaxPlaceNodes:
		return fmt.Errorf("place.nodes: %d nodes, want at most %d", len(p.Nodes), MaxPlaceNodes)
	case p.NoNode != "" && !slices.Contains(NoNodes, p.NoNode):
		return fmt.Errorf("place.no_node is %q, want one of %s", p.NoNode, strings.Join(NoNodes, ", "))
	case p.NoNode != "" && len(p.Nodes) == 0:
		return errors.New("place.no_node says what to do without place.nodes, and none are named")
	}
	for i, n := range p.Nodes {
		if err := ValidName("node", n); err != nil {
			return fmt.Errorf("place.nodes: %w", err)
		}
		if slices.Contains(p.Nodes[:i], n) {
			return fmt.Errorf("place.nodes: %q is named twice", n)
		}
	}
	if p.Queue != "" {
		if err := ValidName("queue", p.Queue); err != nil {
			return fmt.Errorf("place.queue: %w", err)
		}
	}
	return nil
}

// shared is the route of the shared queue to which a task is released.
func (t *Task) shared() Route {
	queue := DefaultQueue
	if t.Spec != nil && t.Spec.Place.Queue != "" {
		queue = t.Spec.Place.Queue
	}
	return QueueRoute(queue, t.Route.Priority())
}

// placeDuty says who must act on a task that is offered to one node, which may
// take no new work at present.
func placeDuty(t Task, on string, around Surroundings, s Settings) Duty {
	if around.Serving > 0 {
		return awaited(t, around, s, Duty{
			Who: "node " + on, What: fmt.Sprintf("claim it as soon as one of its slots is free: it is meant for node %s", on),
		})
	}
	since := t.Since
	if around.Unserved.After(since) {
		since = around.Unserved
	}
	for _, able := range around.Able {
		if able != on {
			to := NodeRoute(able, t.Route.Priority())
			return Duty{
				Who: "scheduler", What: fmt.Sprintf("move it to node %s: node %s takes no work since %s", able, on, clock(since)),
				By: since, Else: "the sweep of any scheduler moves it",
				Command: Reassign{From: t.Route, To: to, Reason: "node " + on + " takes no new work"},
			}
		}
	}
	var p Place
	if t.Spec != nil {
		p = t.Spec.Place
	}
	whom := "node " + on
	if len(p.Nodes) > 1 {
		whom = "one of the nodes " + strings.Join(p.Nodes, ", ")
	}
	d := Duty{Who: "operator", What: fmt.Sprintf("bring %s back, or release the task: no node that it is meant for takes work since %s", whom, clock(since))}
	switch p.NoNode {
	case NoNodeFallback:
		return Duty{
			Who: "scheduler", What: fmt.Sprintf("move it to queue %q: no node that it is meant for takes work since %s", t.shared().Queue(), clock(since)),
			By: since, Else: "the sweep of any scheduler moves it",
			Command: Reassign{From: t.Route, To: t.shared(), Reason: "no node that it is meant for takes new work: fallback"},
		}
	case NoNodeFail:
		d.By = since.Add(s.Slack)
		d.Else = "it ends as abnormal/unplaceable"
		d.Command = GiveUp{Reason: ReasonUnplaced, Detail: "no node that it is meant for takes work: " + strings.Join(p.Nodes, ", ")}
		return d
	case NoNodeWait:
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

// awaited bounds a wait for somebody who can be expected to come: by the task's
// own start deadline, and else by the next look, for a busy queue is no reason to
// end what waits in it.
func awaited(t Task, around Surroundings, s Settings, d Duty) Duty {
	if !t.StartBy.IsZero() {
		d.By = t.StartBy
		d.Else = "it ends as abnormal/expired: pending timeout"
		d.Command = Expire{Detail: "pending timeout: not started by " + clock(t.StartBy)}
		return d
	}
	d.By, d.Look = looked(t.Since, around).Add(s.look()), true
	d.Else, d.Command = "the scheduler looks again; nothing ends it (timeout.pending would)", nil
	return d
}

// looked is when a task in its surroundings was last looked at.
func looked(since time.Time, around Surroundings) time.Time {
	if around.Seen.After(since) {
		return around.Seen
	}
	return since
}

func clock(t time.Time) string { return t.Format(time.RFC3339) }
