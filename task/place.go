package task

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/task/reason"
	"millrace/task/value"
	"millrace/task/where"
)

// Place says where a task may run. The zero value is: wherever its queue is served.
//
// A task with one named node is born on that node's own route, whatever is known of
// the node. With several it is born on a route from which all of them pull: the first of them
// that is free takes it, the preferred ones before the others ([Task.Yields]). Nothing is bound to a list
// that was read earlier. While none of them takes new work it goes as NoNode says, by a fact ([Reassigned]).
//
// A task that asks for labels, avoids nodes or costs more than one slot is born on
// the route of a selector ([where.SelectorRoute]), from which only nodes pull that
// match; if it names nodes besides labels, being one of them is a part of that. And the claim holds the node's labels of that moment against it once more.
//
// A task for each of several nodes is a parent ([Spec.Parental]).
type Place struct {
	// Mode is any, nodes or all. Default: nodes if Nodes are named, else any.
	Mode string `json:"mode,omitempty"`
	// Nodes are those that may run it, the preferred first: whichever is free, and of several that are
	// free the preferred one. With Labels or Avoid besides, those of them that match. At most [MaxPlaceNodes].
	Nodes []string `json:"nodes,omitempty"`
	// Each asks for one task on each of Nodes instead of one on any of them.
	Each bool `json:"each,omitempty"`
	// Labels choose nodes among those that serve the queue. Default: all of them.
	Labels where.Selector `json:"labels,omitempty"`
	// Avoid are nodes that must not run it. At most [MaxPlaceNodes].
	Avoid []string `json:"avoid,omitempty"`
	// Count asks for so many tasks on different nodes that match. Default: one
	// task, and no parent. At most [MaxChildren].
	Count int `json:"count,omitempty"`
	// Spread is a label over whose values those nodes are spread. Default: nodes
	// are taken in the order of their names.
	Spread string `json:"spread,omitempty"`
	// Late says what a task for all nodes does about nodes that come while it is
	// open: [LateIgnore], the default, or [LateInclude].
	Late string `json:"late,omitempty"`
	// Sticky prefers the node on which it ran before: [StickyJob], [StickyAttempt], or a key such
	// as that of [limit.Concurrency], with {params.NAME} or {labels.NAME} in it, for the node on which a task of that key started last.
	Sticky string `json:"sticky,omitempty"`
	// Prefer are nodes that are better than others. Sticky goes before. At most [MaxPrefer].
	Prefer []Preference `json:"prefer,omitempty"`
	// PreferWait is for how long a task is left to nodes that it prefers and that take work; afterwards
	// any node may claim it. Default [DefaultPreferWait].
	PreferWait value.Duration `json:"prefer_wait,omitempty"`
	// NoNode is what happens while no node that it is meant for takes new work. Default expire.
	NoNode string `json:"no_node,omitempty"`
	// Queue is the shared queue to which it is released or falls back, and which nodes
	// chosen by labels must serve. Default: the job's.
	Queue string `json:"queue,omitempty"`
}

// Modes of [Place].
const (
	PlaceAny   = "any"
	PlaceNodes = "nodes"
	PlaceAll   = "all"
)

// PlaceModes lists them.
var PlaceModes = []string{PlaceAny, PlaceNodes, PlaceAll}

// What a task for all nodes does about nodes that come later.
const (
	LateIgnore  = "ignore"  // it is for those that took work when it was expanded
	LateInclude = "include" // as long as it has not ended, each that comes gets its own
)

// Lates lists them.
var Lates = []string{LateIgnore, LateInclude}

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

// selective tells whether nodes are chosen by what they are.
func (p *Place) selective() bool { return len(p.Labels)+len(p.Avoid) > 0 }

// named tells whether nodes are chosen by their names alone, whatever queues they serve.
func (p *Place) named() bool { return p.Targeted() && !p.selective() }

// fans tells whether it asks for a task on each of several nodes.
func (p *Place) fans() bool { return p.Mode == PlaceAll || p.Each || p.Count > 0 }

func (p *Place) validate() error {
	if p.Mode != "" && !slices.Contains(PlaceModes, p.Mode) {
		return fmt.Errorf("place.mode is %q, want one of %s", p.Mode, strings.Join(PlaceModes, ", "))
	}
	switch {
	case p.Mode == PlaceNodes && len(p.Nodes) == 0:
		return errors.New("place.nodes: name at least one node, or leave place.mode out")
	case p.Mode == PlaceAny && len(p.Nodes) > 0:
		return errors.New("place.mode is \"any\", and place.nodes names some; leave one of them out")
	case len(p.Nodes) > 0 && p.fans() && p.selective():
		return errors.New("place asks for a task on each of place.nodes, whatever these are; leave place.labels and place.avoid out, or place.nodes")
	case p.Each && len(p.Nodes) == 0:
		return errors.New("place.each asks for a task on each of place.nodes, and none are named")
	case p.Count < 0 || p.Count > MaxChildren:
		return fmt.Errorf("place.count is %d, want 1 to %d", p.Count, MaxChildren)
	case p.Count > 0 && (p.Mode == PlaceAll || len(p.Nodes) > 0):
		return errors.New("place.count takes so many of the nodes that match; leave place.nodes and mode all out, or name the nodes with place.each")
	case p.Spread != "" && p.Count == 0:
		return errors.New("place.spread says over which label place.count nodes are spread; set place.count")
	case p.Late != "" && !slices.Contains(Lates, p.Late):
		return fmt.Errorf("place.late is %q, want %s or %s", p.Late, LateIgnore, LateInclude)
	case p.Late != "" && (p.Mode != PlaceAll || len(p.Nodes) > 0):
		return errors.New("place.late is for a task on all nodes; set place.mode to all and name none")
	case p.NoNode != "" && !slices.Contains(NoNodes, p.NoNode):
		return fmt.Errorf("place.no_node is %q, want one of %s", p.NoNode, strings.Join(NoNodes, ", "))
	case p.NoNode != "" && len(p.Nodes) == 0 && !p.selective() && !p.fans():
		return errors.New("place.no_node says what to do without the nodes that place chooses, and it chooses none: set nodes, labels, avoid, count or mode all")
	}
	if err := p.Labels.Validate(); err != nil {
		return fmt.Errorf("place.%w", err)
	}
	if err := p.validatePreference(); err != nil {
		return err
	}
	if err := validNodes("place.nodes", p.Nodes); err != nil {
		return err
	}
	if err := validNodes("place.avoid", p.Avoid); err != nil {
		return err
	}
	if p.Queue != "" {
		if err := value.ValidName("queue", p.Queue); err != nil {
			return fmt.Errorf("place.queue: %w", err)
		}
	}
	return nil
}

func validNodes(field string, nodes []string) error {
	if len(nodes) > MaxPlaceNodes {
		return fmt.Errorf("%s: %d nodes, want at most %d", field, len(nodes), MaxPlaceNodes)
	}
	for i, n := range nodes {
		if err := value.ValidName("node", n); err != nil {
			return fmt.Errorf("%s: %w", field, err)
		}
		if slices.Contains(nodes[:i], n) {
			return fmt.Errorf("%s: %q is named twice", field, n)
		}
	}
	return nil
}

// homeRoute is where a task of a spec is born that waits in this queue by itself.
func (s *Spec) homeRoute(queue string, priority int) where.Route {
	switch {
	case s.Parental():
		return where.QueueRoute(queue, priority) // its children have routes; nobody claims it
	case s.Place.named() && len(s.Place.Nodes) == 1:
		return where.NodeRoute(s.Place.Nodes[0], priority)
	case s.Place.named():
		asked := where.Asked{Needs: namedNeeds(s.Place.Nodes, s)}
		return asked.Route(priority)
	case s.Place.selective() || s.Cost() > 1:
		return where.SelectorRoute(queue, s.Needs(), priority)
	}
	return where.QueueRoute(queue, priority)
}

// yieldRound is how many deliveries each named node gets before the next one may take the task.
const yieldRound = 2

// maxYields bounds how often an offer is given back for the sake of preferred nodes.
const maxYields = 8

// Yields tells whether a node gives an offer of the task back, so that one of the nodes that the task names
// before it can take it if it is free: the server hands the offer to whoever has waited longest. It
// does so a few times, which take no longer than messages travel; then it takes the task.
func (t *Task) Yields(node string, deliveries int) bool {
	if t.Spec == nil || t.State != Pending || !t.Spec.Place.named() || len(t.Spec.Place.Nodes) < 2 || !t.Route.Selected() {
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

// QueueName is the queue in which the task waits, for people: of one that is meant for
// nodes with certain labels that whose nodes they are, and of one that is meant
// for one node what [where.NodeQueue] says.
func (w *Work) QueueName() string {
	if w.Route.Selected() {
		return w.sharedName()
	}
	return w.Route.Queue()
}

// WaitsIn says where the task waits, for people: the name of its queue, or "node w3" if it is meant for one node.
func (w *Work) WaitsIn() string {
	if on, own := w.Route.Node(); own {
		return "node " + on
	}
	return w.QueueName()
}

// shared is the route to which a task is released: that queue, or in it those nodes
// that have enough slots.
func (t *Task) shared() where.Route {
	queue := t.sharedName()
	if room := t.Spec.room(); len(room) > 0 {
		return where.SelectorRoute(queue, room, t.Route.Priority())
	}
	return where.QueueRoute(queue, t.Route.Priority())
}

// atShared tells whether the task waits where it falls back to, or for those of the nodes there that can run it.
func (t *Task) atShared() bool {
	if t.Route == t.shared() {
		return true
	}
	if t.Spec.Means() == "" {
		return false
	}
	asked := where.Asked{Queue: t.sharedName(), Needs: t.Spec.room()}.With(where.Requirement{Key: t.Spec.Means(), Op: where.OpExists})
	return t.Route == asked.Route(t.Route.Priority())
}

// placeDuty says who must act on a task that is offered to one node, which may
// take no new work at present.
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

// selectorDuty says who must act on a task that is offered to whoever matches its selector.
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

// unservedSince is since when a task has waited without anybody to claim it.
func unservedSince(t Task, around Surroundings) time.Time {
	if around.Unserved.After(t.Since) {
		return around.Unserved
	}
	return t.Since
}

// noNodeDuty is what the task's policy makes of a wait in which no node that it is meant
// for takes work; named says in words which these are.
func noNodeDuty(t Task, since time.Time, named string, d Duty, around Surroundings, s Settings) Duty {
	var p Place
	if t.Spec != nil {
		p = t.Spec.Place
	}
	policy := p.NoNode
	if policy == NoNodeFallback && t.atShared() {
		policy = NoNodeExpire // it has fallen back, and may go nowhere else
	}
	switch policy {
	case NoNodeFallback:
		return Duty{
			Who: "scheduler", What: fmt.Sprintf("move it to queue %q: no node that it is meant for takes work since %s", t.sharedName(), value.Clock(since)),
			By: since, Else: "the sweep of any scheduler moves it",
			Command: Reassign{From: t.Route, To: t.shared(), Reason: "no node that it is meant for takes new work: fallback"},
		}
	case NoNodeFail:
		d.By = since.Add(s.Slack)
		d.Else = "it ends as abnormal/unplaceable"
		d.Command = GiveUp{Reason: reason.Unplaced, Detail: "no node that it is meant for takes work: " + named}
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
		d.Command = Expire{Detail: "pending timeout: not started by " + value.Clock(t.StartBy)}
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
