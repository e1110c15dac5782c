package answers

import (
	"context"
	"maps"
	"slices"

	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/output"
)

// progress returns the progress of the running ones among tasks: the reports of their programs, and
// the state of the children of parents.
func (s *Service) progress(ctx context.Context, tasks []task.Task) (map[task.ID]*output.Live, map[task.ID]*client.Whole, error) {
	wholes := map[task.ID]*client.Whole{}
	var running []task.ID
	for i := range tasks {
		t := &tasks[i]
		switch {
		case !t.Live():
		case t.Children == nil:
			running = append(running, t.ID)
		default:
			ends, _, err := s.Model.Ends(ctx, slices.Collect(maps.Values(birth.ChildIDs(t))))
			if err != nil {
				return nil, nil, err
			}
			whole := client.WholeOf(t, ends)
			wholes[t.ID] = &whole
		}
	}
	if len(running) == 0 {
		return nil, wholes, nil
	}
	said, err := s.Client.Store().LiveAll(ctx, running)
	if err != nil {
		return nil, nil, err
	}
	live := map[task.ID]*output.Live{}
	for i := range tasks {
		if l, ok := said[tasks[i].ID]; ok && l.Epoch == tasks[i].Epoch {
			live[l.Task] = &l
		}
	}
	return live, wholes, nil
}
