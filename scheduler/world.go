package scheduler

import (
	"context"

	"millrace/node"
	"millrace/task"
)

// World is what a scheduler knows of the nodes at one look.
type World struct {
	*node.World
	// beating are heartbeats that were read after all that is known of their nodes.
	beating map[node.ID]node.Heartbeat
}

func (s *Scheduler) world(nodes []node.Node, at uint64) *World {
	return &World{node.NewWorld(nodes, at, s.rec.Now()), map[node.ID]node.Heartbeat{}}
}

// know adds what was read of a node just now.
func (w *World) know(n node.Node) {
	w.Freshen(n)
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
