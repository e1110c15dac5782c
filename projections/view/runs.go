package view

import (
	"context"
	"errors"

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

// Runner is an optional part of a [View]: it knows runs without reading their tasks.
type Runner interface {
	// Runs returns the runs of the tasks that a filter chooses, one page in its order.
	Runs(ctx context.Context, f Filter) ([]Run, error)
}

// Runs returns the runs of the tasks that a filter chooses, one page in its order.
func Runs(ctx context.Context, v View, f Filter) ([]Run, error) {
	if r, ok := v.(Runner); ok {
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

// Runs implements [Runner].
func (m *Memory) Runs(ctx context.Context, f Filter) ([]Run, error) { return listed(ctx, m, f) }

// Runs implements [Runner], by the index if that knows.
func (f *Folding) Runs(ctx context.Context, filter Filter) (runs []Run, err error) {
	if r, ok := f.index.(Runner); ok {
		if runs, err = r.Runs(ctx, filter); !errors.Is(err, ErrUnindexed) {
			return runs, err
		}
	}
	return listed(ctx, f, filter)
}
