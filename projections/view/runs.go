package view

import (
	"context"

	"millrace/task"
	"millrace/task/value"
)

// Run is the part of a task of which figures about its job are made.
type Run struct {
	ID  task.ID
	Job string
	// Root tells that it has no parent.
	Root  bool
	State task.State
	// Ran is how long the latest attempt of this life ran, 0 if it runs still: see [task.Task.Ran].
	Ran value.Duration
}

// RunOf returns this part of a task.
func RunOf(t *task.Task) Run { return Run{t.ID, t.Job, t.Parent == "", t.State, t.Ran} }

// Runs returns the runs of the tasks that a filter chooses, one page in its order. Some views know them
// without reading their tasks.
func Runs(ctx context.Context, v View, f Filter) ([]Run, error) {
	if r, ok := v.(interface {
		Runs(ctx context.Context, f Filter) ([]Run, error)
	}); ok {
		return r.Runs(ctx, f)
	}
	return listed(ctx, v, f)
}

// listed are the runs of listed tasks.
func listed(ctx context.Context, m Model, f Filter) ([]Run, error) {
	page, err := m.List(ctx, Query{Kind: Tasks, Filter: f})
	runs := make([]Run, len(page.Tasks))
	for i := range page.Tasks {
		runs[i] = RunOf(&page.Tasks[i])
	}
	return runs, err
}

// Runs returns the runs of the tasks that a filter chooses, one page in its order.
func (m *Memory) Runs(ctx context.Context, f Filter) ([]Run, error) { return listed(ctx, m, f) }
