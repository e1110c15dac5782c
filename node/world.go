package node

import (
	"time"

	"millrace/task"
	"millrace/task/job"
	"millrace/task/queue"
	"millrace/task/where"
)

// World is what is known of all nodes, and of what operators have said about queues, at one look. It is
// for one goroutine.
type World struct {
	// At is the sequence up to which the nodes are known, and Seen when they were looked at.
	At   uint64
	Seen time.Time

	nodes map[ID]Node
	// fresh are nodes that were read later, for the sake of those tasks that depend on them.
	fresh map[ID]Node
	// unserved are queues that nobody serves, and since when that is known.
	unserved map[string]time.Time
	// told are the queues as operators have them, as far as somebody has looked.
	told map[string]queue.Queue
	// selectors are what routes of selectors ask of nodes, as far as a task there was seen.
	selectors map[string]Want
}

// NewWorld is the world as these nodes make it, which are known up to a sequence and seen now.
func NewWorld(nodes []Node, at uint64, now time.Time) *World {
	known := make(map[ID]Node, len(nodes))
	for _, n := range nodes {
		known[n.ID] = n
	}
	return (&World{At: at, nodes: known}).Again(now)
}

// Node is a node as it was when the world was seen; zero if there was none.
func (w *World) Node(id ID) Node { return w.nodes[id] }

// Freshen adds what was read of a node since. It counts only for tasks that depend on this node: what is known of all
// nodes must be of one moment.
func (w *World) Freshen(n Node) { w.fresh[n.ID] = n }

// Tell adds what operators have said about a queue.
func (w *World) Tell(q queue.Queue) { w.told[q.Name] = q }

// Told tells whether somebody has said so, and the pause of the queue, nil for none.
func (w *World) Told(queue string) (pause *queue.Pause, told bool) {
	q, told := w.told[queue]
	return q.PausedAt(w.Seen), told
}

// Unserved says since when it is known that nobody serves a queue.
func (w *World) Unserved(queue string, since time.Time) { w.unserved[queue] = since }

// Learn says what the route of a selector asks of nodes.
func (w *World) Learn(route string, want Want) { w.selectors[route] = want }

// Home is the queue whose pause holds for what waits on a route: the route's own, or that of its selector.
func (w *World) Home(queue string) string {
	if want, ok := w.selectors[queue]; ok {
		return want.Queue
	}
	return queue
}

// Serving counts the nodes that take new work from a queue.
func (w *World) Serving(queue string) int {
	if where.IsSelectorQueue(queue) {
		return w.matching(w.selectors[queue])
	}
	count := 0
	for _, n := range w.nodes {
		if n.Serves(queue) {
			count++
		}
	}
	return count
}

// matching counts the nodes that take new work of this kind.
func (w *World) matching(want Want) int {
	count := 0
	for _, n := range w.nodes {
		if rule, _ := n.Excluded(want); rule == "" {
			count++
		}
	}
	return count
}

// own is a node on which a task depends, as late as it is known; false if it is not.
func (w *World) own(id ID) (Node, bool) {
	if n, ok := w.fresh[id]; ok {
		return n, true
	}
	n, ok := w.nodes[id]
	return n, ok
}

// Around is what the duty of a task depends on besides the task.
func (w *World) Around(t *task.Task) task.Surroundings {
	queue := t.Route.Queue()
	if t.Route.Selected() {
		served, needs := t.Asks()
		w.selectors[queue] = Want{Queue: served, Needs: needs}
	}
	pause, _ := w.Told(w.Home(queue))
	around := task.Surroundings{Unserved: w.unserved[queue], Paused: pause, Seen: w.Seen, Lacks: w.lacks(t)}
	if on, own := t.Route.Node(); !own {
		around.Serving = w.Serving(queue)
	} else if n, _ := w.own(ID(on)); n.Serves(queue) {
		around.Serving = 1
	} else {
		around.Unserved = n.Since // of a node that never was, zero
		around.Able = w.able(t)
	}
	if n, ok := w.own(ID(t.Node)); ok && t.Live() {
		around.NodeGone = n.Gone(t.Session)
	}
	return around
}

// able are the nodes that a task names and that take new work.
func (w *World) able(t *task.Task) (names []string) {
	if t.Spec == nil {
		return nil
	}
	for _, name := range t.Spec.Place.Nodes {
		if n, ok := w.nodes[ID(name)]; ok && n.Serves(where.NodeQueue(name)) {
			names = append(names, name)
		}
	}
	return names
}

// lacks says that of the nodes that are there none can run a task that waits.
func (w *World) lacks(t *task.Task) string {
	means := t.Spec.Means()
	if means == "" || t.State != task.Pending {
		return ""
	}
	there := false
	for _, n := range w.nodes {
		if n.Alive() && n.Runs(means) {
			return ""
		}
		there = there || n.Alive()
	}
	if !there {
		return ""
	}
	return "no node that is there " + job.HasMeans(means)
}

// Doubted is the node on which the task's duty depends, if what is known of it says
// that nothing is to be expected of it and is older than what is known of the task; "" for none.
func (w *World) Doubted(t *task.Task, around task.Surroundings) ID {
	id := depends(t, around)
	if n, _ := w.own(id); id == "" || t.Seq < n.Head {
		return ""
	}
	return id
}

// depends is the node on which the task's duty depends, if nothing is to be expected of it.
func depends(t *task.Task, around task.Surroundings) ID {
	if on, own := t.Route.Node(); own && t.State == task.Pending && around.Serving == 0 {
		return ID(on)
	}
	if !around.NodeGone.IsZero() {
		return ID(t.Node)
	}
	return ""
}

// By is what a decision about a task was made by that follows from its duty in this world.
func (w *World) By(t *task.Task, around task.Surroundings, s task.Settings) task.By {
	by := task.By{Rule: task.RuleDuty, Task: t.Seq, Seen: w.At, Bounds: s.Bounds()}
	if q, told := w.told[w.Home(t.Route.Queue())]; told && t.Waiting() {
		by.Queue = q.Head
	}
	if _, own := t.Route.Node(); !own && t.Waiting() {
		by.Since = around.Unserved
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

// Accounted tells whether a live attempt counts as lost only by an account of its lease: by when nothing
// is left of it depends on times that were written by other clocks.
func (w *World) Accounted(t *task.Task, around task.Surroundings) bool {
	if around.NodeGone.IsZero() {
		return false
	}
	n, _ := w.own(ID(t.Node))
	return t.Spec.Adopts() || n.Session != t.Session
}

// Again is the world of the same nodes, seen at another time, with nothing else known.
func (w *World) Again(now time.Time) *World {
	return &World{At: w.At, Seen: now, nodes: w.nodes, fresh: map[ID]Node{},
		unserved: map[string]time.Time{}, told: map[string]queue.Queue{}, selectors: map[string]Want{}}
}
