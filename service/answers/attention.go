package answers

import (
	"context"
	"slices"
	"time"

	"millrace/projections/view"
	"millrace/task"
	"millrace/task/node"
)

// doubts returns what is known of all nodes now.
func (s *Service) doubts(ctx context.Context) (*node.Doubts, error) {
	all, err := s.view().List(ctx, view.Query{Kind: view.Nodes})
	if err != nil {
		return nil, err
	}
	beats, err := s.view().Beats(ctx)
	if err != nil {
		return nil, err
	}
	return node.NewDoubts(all.Nodes, beats, s.now(), s.Nodes), nil
}

func (s *Service) now() time.Time {
	if s.Now == nil {
		return s.Client.Now()
	}
	return s.Now()
}

// suspects returns the doubts about the nodes of these tasks. For a page without tasks that depend
// on a node it asks nothing.
func (s *Service) suspects(ctx context.Context, tasks []task.Task) (map[task.ID]*node.Doubt, error) {
	if !slices.ContainsFunc(tasks, func(t task.Task) bool { id, _ := node.DependsOn(&t); return id != "" }) {
		return nil, nil
	}
	doubts, err := s.doubts(ctx)
	if err != nil {
		return nil, err
	}
	suspects := map[task.ID]*node.Doubt{}
	for i := range tasks {
		if d := doubts.Of(&tasks[i]); d != nil {
			suspects[tasks[i].ID] = d
		}
	}
	return suspects, nil
}

// unserved returns why no node takes those of these tasks that are pending in a queue. For a page without
// such tasks it asks nothing.
func (s *Service) unserved(ctx context.Context, tasks []task.Task) (map[task.ID]string, error) {
	inQueue := func(t task.Task) bool { _, own := t.Route.Node(); return t.State == task.Pending && !own }
	if !slices.ContainsFunc(tasks, inQueue) {
		return nil, nil
	}
	nodes, err := s.view().List(ctx, view.Query{Kind: view.Nodes})
	if err != nil {
		return nil, err
	}
	w, why := node.NewFleet(nodes.Nodes, nodes.Point.Seq, s.now()), map[task.ID]string{}
	for i := range tasks {
		t := &tasks[i]
		if !inQueue(*t) || w.Around(t).NoNode == "" {
			continue
		}
		if q := t.QueueName(); !w.Told(q) { // a paused queue misses no node
			said, err := view.GetQueue(ctx, s.view(), q)
			if err != nil {
				return nil, err
			}
			w.Tell(said)
		}
		if no := w.Around(t).NoNode; no != "" {
			why[t.ID] = no
		}
	}
	return why, nil
}
