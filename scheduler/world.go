package scheduler

import (
	"context"

	"millrace/task"
	"millrace/task/node"
)

// Roster is a scheduler's view of the nodes at one check.
type Roster struct {
	*node.Fleet
	// beating are heartbeats that were read after the known facts of their nodes.
	beating map[node.ID]node.Heartbeat
}

func (s *Scheduler) world(nodes []node.Node, at uint64) *Roster {
	return &Roster{node.NewFleet(nodes, at, s.rec.Now()), map[node.ID]node.Heartbeat{}}
}

// know adds a node that was read just now.
func (w *Roster) know(n node.Node) {
	w.Freshen(n)
	delete(w.beating, n.ID)
}

// beats tells whether the session that runs the task beats although the facts of its node say that
// it has ended. The recorder of that may have been slow: the session has beaten since, and may have
// claimed the task since. Call it only after those facts are known. A session that beats soon
// records that it is online.
func (w *Roster) beats(ctx context.Context, heartbeats Heartbeats, t *task.Task) (bool, error) {
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
