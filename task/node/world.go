package node

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"millrace/task"
	"millrace/task/duties"
	"millrace/task/job"
	"millrace/task/placement"
	"millrace/task/queue"
	"millrace/task/value"
)

// Fleet is the state of all nodes, and the operators' settings of queues, at one moment. It is for
// one goroutine.
type Fleet struct {
	// At is the sequence up to which the nodes are known. Seen is when they were read.
	At   uint64
	Seen time.Time

	nodes map[ID]Node
	// fresh are nodes that were read later, for the tasks that depend on them.
	fresh map[ID]Node
	// unserved are unserved queues, and since when that is known.
	unserved map[string]time.Time
	// told are the settings of the queues that were read.
	told map[string]queue.Queue
	// why says why no node takes work from a route.
	why map[string]noNode
	// selectors are what selectors' routes require of nodes, where a task there was seen.
	selectors map[string]Want
}

// noNode says in words why no node takes a task, and what an operator may undo so that one does.
type noNode struct{ why, undo string }

// NewFleet returns the fleet of these nodes, known up to a sequence and read now.
func NewFleet(nodes []Node, at uint64, now time.Time) *Fleet {
	known := make(map[ID]Node, len(nodes))
	for _, n := range nodes {
		known[n.ID] = n
	}
	return (&Fleet{At: at, nodes: known}).Again(now)
}

// Node returns a node as of the world's moment; zero if there was none.
func (w *Fleet) Node(id ID) Node { return w.nodes[id] }

// Freshen adds a node that was read later. It counts only for tasks that depend on this node: the
// state of all nodes together must be of one moment.
func (w *Fleet) Freshen(n Node) { w.fresh[n.ID] = n }

// Tell adds the settings of a queue.
func (w *Fleet) Tell(q queue.Queue) { w.told[q.Name] = q }

// Told tells whether the settings of a queue were added.
func (w *Fleet) Told(queue string) bool {
	_, told := w.told[queue]
	return told
}

// Unserved records since when a queue is known to be unserved.
func (w *Fleet) Unserved(queue string, since time.Time) { w.unserved[queue] = since }

// Missed is for how long a route has missed nodes; a paused queue misses none.
func (w *Fleet) Missed(queue string) time.Duration {
	home := w.told[w.Home(queue)]
	if home.PausedAt(w.Seen) != nil {
		return 0
	}
	return w.Seen.Sub(value.Later(w.unserved[queue], home.OpenSince(w.Seen)))
}

// Learn records what a selector's route requires of nodes.
func (w *Fleet) Learn(route string, want Want) { w.selectors[route] = want }

// Home is the queue whose pause applies to a route: the route's own queue, or that of its selector.
func (w *Fleet) Home(queue string) string {
	if want, ok := w.selectors[queue]; ok {
		return want.Queue
	}
	return queue
}

// Serving counts the nodes that take new work from a queue.
func (w *Fleet) Serving(queue string) int {
	count, _ := w.served(queue)
	return count
}

// served counts the nodes that take new work from a queue, and says since when the first of them does.
func (w *Fleet) served(queue string) (count int, since time.Time) {
	want, selected := w.selectors[queue], placement.IsSelectorQueue(queue)
	for _, n := range w.nodes {
		serves := !selected && n.Serves(queue)
		if selected {
			rule, _ := n.Excluded(want)
			serves = rule == ""
		}
		if !serves {
			continue
		}
		if count++; count == 1 || n.TakesSince().Before(since) {
			since = n.TakesSince()
		}
	}
	return count, since
}

// own is a node on which a task depends, in its latest known state; false if it is unknown.
func (w *Fleet) own(id ID) (Node, bool) {
	if n, ok := w.fresh[id]; ok {
		return n, true
	}
	n, ok := w.nodes[id]
	return n, ok
}

// Around returns the facts outside a task on which its duty depends.
func (w *Fleet) Around(t *task.Task) duties.Surroundings {
	queue := t.Route.Queue()
	if t.Route.Selected() {
		served, needs := t.Asks()
		w.selectors[queue] = Want{Queue: served, Needs: needs}
	}
	home := w.told[w.Home(queue)]
	around := duties.Surroundings{Unserved: w.unserved[queue], Paused: home.PausedAt(w.Seen),
		Resumed: home.OpenSince(w.Seen), Windowed: home.Window != "", Seen: w.Seen, Lacks: w.lacks(t)}
	if on, own := t.Route.Node(); !own {
		around.Serving, around.Served = w.served(queue)
	} else if n, _ := w.own(ID(on)); n.Serves(queue) {
		around.Serving, around.Served = 1, n.TakesSince()
	} else {
		around.Unserved = n.TakesSince() // zero for a node that never existed
		around.Able = w.able(t)
	}
	none := w.noNode(t, &around)
	around.NoNode, around.Undo = none.why, none.undo
	if n, ok := w.own(ID(t.Node)); ok && t.Live() {
		if around.NodeGone = n.Gone(t.Session); n.State == Unknown { // the log has nothing of it, or nothing any more
			around.NodeGone = t.StartedAt
		}
	}
	return around
}

// able returns the nodes that a task names and that take new work.
func (w *Fleet) able(t *task.Task) (names []string) {
	if t.Spec == nil {
		return nil
	}
	for _, name := range t.Spec.Place.Nodes {
		if n, ok := w.nodes[ID(name)]; ok && n.Serves(placement.NodeQueue(name)) {
			names = append(names, name)
		}
	}
	return names
}

// lacks says in words that none of the present nodes can run a waiting task.
func (w *Fleet) lacks(t *task.Task) string {
	if t.State != task.Pending {
		return ""
	}
	return Lacking(maps.Values(w.nodes), t.Spec.Means())
}

// noNode says it of a pending task; nothing if a node takes it, or if an operator keeps all of them
// from it.
func (w *Fleet) noNode(t *task.Task, around *duties.Surroundings) noNode {
	if t.State != task.Pending || around.Serving > 0 || around.Paused != nil {
		return noNode{}
	}
	if on, own := t.Route.Node(); own {
		return w.noneOf(t, on)
	}
	route := t.Route.Queue()
	if _, known := w.why[route]; !known {
		want := Want{Queue: route}
		if t.Route.Selected() {
			want.Queue, want.Needs = t.Asks()
		}
		w.why[route] = w.noneFor(want)
	}
	return w.why[route]
}

// noneOf says it of the nodes that a task names, or only of that on whose route it waits.
func (w *Fleet) noneOf(t *task.Task, on string) noNode {
	names := []string{on}
	if t.Spec != nil && len(t.Spec.Place.Nodes) > 0 {
		names = t.Spec.Place.Nodes
	}
	all, undo := make([]string, len(names)), []string(nil)
	for i, name := range names {
		n, _ := w.own(ID(name))
		rule, _ := n.standsAside()
		switch {
		case n.State == Unknown:
			all[i] = "no worker has registered as node " + name
		case n.State == Retired:
			all[i] = "node " + name + " is retired"
		default:
			all[i] = fmt.Sprintf("node %s is %s since %s", name, rule, value.Clock(n.TakesSince()))
			undo = append(undo, n.undo()...)
		}
	}
	return noNode{strings.Join(all, ", "), either(undo)}
}

// noneFor says it of all nodes: it names the needs that none of them meets, else that no one node meets
// them all, or that those which do take no work.
func (w *Fleet) noneFor(want Want) noNode {
	such, unmet, serves, undo := 0, slices.Clone(want.Needs), false, []string(nil)
	for _, n := range w.nodes {
		if !n.registered() {
			continue
		}
		if rule, _ := n.Excluded(want); rule.Passing() {
			such++
			undo = append(undo, n.undo()...)
		}
		serves = serves || slices.Contains(n.Queues, want.Queue)
		labels := n.Selectable()
		unmet = slices.DeleteFunc(unmet, func(r placement.Requirement) bool { return placement.Selector{r}.Refuses(labels) == nil })
	}
	looked := w.looked()
	switch {
	case such > 0:
		why := fmt.Sprintf("no node that %s takes work (%d looked at, %d such)", job.NeedWords(want.Queue, want.Needs), looked, such)
		return noNode{why, either(slices.Sorted(slices.Values(undo)))}
	case want.Queue != "" && !serves:
		want.Needs = nil
	case len(unmet) > 0:
		want = Want{Needs: unmet}
	}
	return noNode{why: fmt.Sprintf("no node %s (%d looked at)", job.NeedWords(want.Queue, want.Needs), looked)}
}

// either names the first of several commands, of which one is enough.
func either(commands []string) string {
	return strings.Join(commands[:min(len(commands), mostWhys)], " or ")
}

// looked counts the nodes that are looked at: those that are not retired.
func (w *Fleet) looked() (n int) {
	for _, one := range w.nodes {
		if one.registered() {
			n++
		}
	}
	return n
}

// Lacking says in words that no live node has the means that [job.Spec.Means] names; "" if one has,
// or if no node is alive.
func Lacking(nodes iter.Seq[Node], means string) string {
	there := false
	for n := range nodes {
		if n.Alive() && n.Runs(means) {
			return ""
		}
		there = there || n.Alive()
	}
	if !there || means == "" {
		return ""
	}
	return "no node that is there " + job.HasMeans(means)
}

// Doubted is the node on which the task's duty depends, if that node counts as gone by a state
// older than that of the task, or if it is not known whether the log has the node; "" for none.
func (w *Fleet) Doubted(t *task.Task, around duties.Surroundings) ID {
	id := depends(t, around)
	if n, _ := w.own(id); id != "" && t.Seq >= n.Head {
		return id
	}
	if _, known := w.own(ID(t.Node)); t.Live() && !known {
		return ID(t.Node)
	}
	return ""
}

// depends is the node on which the task's duty depends, if that node counts as gone.
func depends(t *task.Task, around duties.Surroundings) ID {
	if on, own := t.Route.Node(); own && t.State == task.Pending && around.Serving == 0 {
		return ID(on)
	}
	if !around.NodeGone.IsZero() {
		return ID(t.Node)
	}
	return ""
}

// By returns the inputs of a decision that follows from the task's duty in this world.
func (w *Fleet) By(t *task.Task, around duties.Surroundings, s duties.Settings) task.By {
	by := task.By{Rule: task.RuleDuty, Task: t.Seq, Seen: w.At, Bounds: s.Bounds()}
	if q, told := w.told[w.Home(t.Route.Queue())]; told && t.Waiting() {
		by.Queue = q.Head
	}
	if _, own := t.Route.Node(); !own && t.Waiting() {
		by.Since = around.Unserved
	}
	if around.NoNode != "" {
		by.Looked = new(w.looked())
	}
	on := t.Node
	if t.Waiting() {
		on, _ = t.Route.Node()
	}
	if n, ok := w.fresh[ID(on)]; ok {
		by.Node = n.Head
	}
	return by
}

// Accounted tells whether a live attempt counts as lost only by an account of its lease: the times
// that would otherwise decide come from other clocks.
func (w *Fleet) Accounted(t *task.Task, around duties.Surroundings) bool {
	if around.NodeGone.IsZero() {
		return false
	}
	n, _ := w.own(ID(t.Node))
	return t.Spec.Adopts() || n.Session != t.Session
}

// Again returns the world of the same nodes at another time, without any other knowledge.
func (w *Fleet) Again(now time.Time) *Fleet {
	return &Fleet{At: w.At, Seen: now, nodes: w.nodes, fresh: map[ID]Node{},
		unserved: map[string]time.Time{}, told: map[string]queue.Queue{}, why: map[string]noNode{}, selectors: map[string]Want{}}
}
