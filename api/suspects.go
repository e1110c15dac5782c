package api

import (
	"context"
	"slices"
	"time"

	"millrace/node"
	"millrace/task"
	"millrace/view"
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
