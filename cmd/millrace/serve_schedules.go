package main

import (
	"context"
	"errors"
	"fmt"

	"millrace/desk"
	"millrace/files/tree"
	"millrace/jet"
	"millrace/scheduler"
	"millrace/task"
)

// births is what the births of ticks depend on.
type births struct{ desk.Store }

// PinFiles pins the files of the task of a tick.
func (b births) PinFiles(ctx context.Context, f *task.Files) (*task.Files, error) {
	pinned, err := b.Store.PinFiles(ctx, f)
	if errors.Is(err, jet.ErrNoBundle) || errors.Is(err, tree.ErrNoVersion) {
		err = fmt.Errorf("%w: %w", scheduler.ErrNoTask, err)
	}
	return pinned, err
}

// scheduled is the log as the scheduler wants it for schedules.
type scheduled struct{ *jet.Store }

// JobToRun returns the job that a tick is about.
func (s scheduled) JobToRun(ctx context.Context, name string) (task.Job, uint64, error) {
	j, err := s.LatestJob(ctx, name)
	if errors.Is(err, jet.ErrNoJob) || errors.Is(err, jet.ErrBadJob) {
		return j.Job, 0, fmt.Errorf("%w: %w", scheduler.ErrNoTask, err)
	}
	return j.Job, j.Revision, err
}
