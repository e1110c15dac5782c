package scheduler

import (
	"context"
	"time"

	"millrace/node"
	"millrace/task"
)

// World is what is known of the nodes at one look.
type World struct {
	nodes map[node.ID]node.Node
	seen  time.Time
	// unserved are queues that nobody serves, and since when that is known.
	unserved map[string]time.Time
	// paused are the queues that are, as far as somebody has looked.
	paused map[string]*task.Pause
	// beating are heartbeats that were read after all that is known of their nodes.
	beating map[node.ID]node.Heartbeat
	// selectors are what routes of selectors ask of nodes, as far as a task there was seen.
	selectors map[string]node.Want
}

// NewWorld is the world as these nodes make it, seen now.
func NewWorld(nodes []node.Node, now time.Time) *World {
	w := &World{nodes: make(map[node.ID]node.Node, len(nodes)), seen: now, unserved: map[string]time.Time{}, paused: map[string]*task.Pause{}, beating: map[node.ID]node.Heartbeat{}, selectors: map[string]node.Want{}}
	for _, n := range nodes {
		w.nodes[n.ID] = n
	}
	return w
}

// Tell adds what operators have said about a queue.
func (w *World) Tell(q task.Queue) { w.paused[q.Name] = q.PausedAt(w.seen) }

// home is the queue whose pause holds for what waits on a route: the route's own, or that of its selector.
func (w *World) home(queue string) string {
	if want, ok := w.selectors[queue]; ok {
		return want.Queue
	}
	return queue
}

// serving counts the nodes that take new work from a queue.
func (w *World) serving(queue string) int {
	if task.IsSelectorQueue(queue) {
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
func (w *World) matching(want node.Want) int {
	count := 0
	for _, n := range w.nodes {
		if rule, _ := n.Excluded(want); rule == "" {
			count++
		}
	}
	return count
}

// Around is what the duty of a task depends on besides the task.
func (w *World) Around(t *task.Task) task.Surroundings {
	queue := t.Route.Queue()
	if t.Route.Selected() {
		served, needs := t.Asks()
		w.selectors[queue] = node.Want{Queue: served, Needs: needs}
	}
	around := task.Surroundings{Serving: w.serving(queue), Unserved: w.unserved[queue], Paused: w.paused[w.home(queue)], Seen: w.seen}
	if on, own := t.Route.Node(); own && around.Serving == 0 {
		around.Unserved = w.nodes[node.ID(on)].Since // of a node that never was, zero
		for _, name := range placeOf(t).Nodes {
			if n, ok := w.nodes[node.ID(name)]; ok && n.Serves(task.NodeQueue(name)) {
				around.Able = append(around.Able, name)
			}
		}
	}
	around.Lacks = w.lacks(t)
	if n, ok := w.nodes[node.ID(t.Node)]; ok && t.Live() {
		around.NodeGone = n.Gone(t.Session)
	}
	return around
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
	return "no node that is there " + task.HasMeans(means)
}

// doubted is the node on which the task's duty depends, if what is known of it says
// that nothing is to be expected of it and is older than what is known of the task.
func (w *World) doubted(t *task.Task, around task.Surroundings) node.ID {
	var id node.ID
	if on, own := t.Route.Node(); own && t.State == task.Pending && around.Serving == 0 {
		id = node.ID(on)
	} else if !around.NodeGone.IsZero() {
		id = node.ID(t.Node)
	}
	if id == "" || t.Seq < w.nodes[id].Head {
		return ""
	}
	return id
}

// know puts what was read of a node just now in place of what was known.
func (w *World) know(n node.Node) {
	w.nodes[n.ID] = n
	delete(w.beating, n.ID)
}

// beats tells whether the session beats that runs the task, although the facts of its node say that
// it is over. Whoever recorded that may have been slow: it has beaten since, and may have claimed
// the task since. It is asked only after those facts are known. A session that beats
// records soon that it is online.
func (w *World) beats(ctx context.Context, heartbeats Heartbeats, t *task.Task) (bool, error) {
	id := node.ID(t.Node)
	h, asked := w.beating[id]
	if !asked {
		var err error
		if h, _, err = heartbeats.Beating(ctx, id); err != nil {
			return false, err
		}
		w.beating[id] = h
	}
	return h.Session == t.Session, nil
}

func placeOf(t *task.Task) task.Place {
	if t.Spec == nil {
		return task.Place{}
	}
	return t.Spec.Place
}
