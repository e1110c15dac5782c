package scheduler

import (
	"context"
	"errors"
	"fmt"

	"millrace/node"
	"millrace/scheduler/turns"
	"millrace/task"
	"millrace/task/where"
)

// watch is what [Scheduler.React] remembers: the nodes as they were at its last look.
type watch struct {
	nodes map[node.ID]standing
}

// standing is what of a node decides about its tasks.
type standing struct {
	state   node.State
	session string
	labels  string
}

// afterglow is how long after a change of a node its tasks are looked at again
// and again: whoever recorded it may have a clock that is ahead, and who goes first with them may have died before it
// looked.
const afterglow = turns.Patience + turns.HereEvery

// React looks once whether a node came or went since the last look, and if so
// takes care of the tasks that this touches: those that ran under a session
// which is over are declared lost and offered again, those that wait for a node
// which takes no work are moved as their rules have it. Tasks that were left to nodes which
// they prefer are moved back when that is over. It does at once what the
// sweep would do a few seconds later, and the two may run side by side. It is
// for one goroutine.
func (s *Scheduler) React(ctx context.Context) error {
	nodes, at, err := s.view.Nodes(ctx)
	if err != nil {
		return err
	}
	now := s.rec.Now()
	w := s.world(nodes, at)
	seen := make(map[node.ID]standing, len(nodes))
	var errs []error
	came := false
	for _, n := range nodes {
		is := standing{n.State, n.Session, fmt.Sprint(n.Labels)}
		was, known := s.watch.nodes[n.ID]
		if known && was == is {
			seen[n.ID] = is
			continue
		}
		serves := n.Serves(where.NodeQueue(string(n.ID)))
		came = came || serves
		err := s.sweepAstray(ctx, &n, w)
		if !serves {
			err = errors.Join(err, s.sweepRoute(ctx, where.NodeQueue(string(n.ID)), now, w, false))
		}
		// Until what follows from the change is due by any clock, come back to it.
		if err == nil && now.After(n.Since.Add(afterglow)) && now.After(n.Started.Add(node.Succession+afterglow)) {
			seen[n.ID] = is
		}
		errs = append(errs, err)
	}
	s.watch.nodes = seen
	if ids := s.handed.due(now); len(ids) > 0 {
		errs = append(errs, s.enforceAll(ctx, ids, w, false))
	}
	errs = append(errs, s.enforceLate(ctx, w))
	if came {
		errs = append(errs, s.reactToArrival(ctx, w), s.include(ctx, nodes, at))
	}
	return errors.Join(errs...)
}

// enforceLate looks at tasks that other schedulers should have looked at, if something is due as the read model has them.
func (s *Scheduler) enforceLate(ctx context.Context, w *World) error {
	ids := s.reacting.LateTasks()
	if len(ids) == 0 {
		return nil
	}
	tasks, err := s.view.Known(ctx, ids)
	if err != nil {
		return err
	}
	var errs []error
	for i := range tasks {
		t := &tasks[i]
		if !s.reacting.Mine(string(t.ID)) {
			continue
		}
		if duty := task.Owes(*t, w.Around(t), s.cfg.Settings); !duty.Look && duty.Overdue(s.rec.Now()) {
			errs = append(errs, s.enforce(ctx, t.ID, w, false))
		}
	}
	return errors.Join(errs...)
}

func (s *Scheduler) sweepAstray(ctx context.Context, n *node.Node, w *World) error {
	ids, err := s.view.Astray(ctx, n.ID, liveSession(w, n.ID))
	return errors.Join(err, s.enforceAll(ctx, ids, w, false))
}

// reactToArrival looks at what waits for other nodes: the one that came may be
// among those that it is meant for.
func (s *Scheduler) reactToArrival(ctx context.Context, w *World) error {
	queues, err := s.view.Queues(ctx)
	if err != nil {
		return err
	}
	for _, q := range queues {
		if _, own := where.NodeOf(q); !own || w.Serving(q) > 0 {
			continue
		}
		if err := s.sweepRoute(ctx, q, w.Seen, w, false); err != nil {
			return err
		}
	}
	return nil
}
