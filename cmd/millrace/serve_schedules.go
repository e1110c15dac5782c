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

// scheduled is the log as the scheduler wants it for schedules.
type scheduled struct {
	*jet.Store
	births desk.Store
}

// PinFiles pins the files of the task of a tick.
func (s scheduled) PinFiles(ctx context.Context, f *task.Files) (*task.Files, error) {
	pinned, err := s.births.PinFiles(ctx, f)
	if errors.Is(err, jet.ErrNoBundle) || errors.Is(err, tree.ErrNoVersion) {
		err = fmt.Errorf("%w: %w", scheduler.ErrNoTask, err)
	}
	return pinned, err
}

// Waiting counts what waits in the queue of a tick.
func (s scheduled) Waiting(ctx context.Context, queue string, most int) (int, error) {
	return s.births.Waiting(ctx, queue, most)
}

// JobToRun returns the job that a tick is about.
func (s scheduled) JobToRun(ctx context.Context, name string) (task.Job, uint64, error) {
	j, err := s.LatestJob(ctx, name)
	if errors.Is(err, jet.ErrNoJob) || errors.Is(err, jet.ErrBadJob) {
		return j.Job, 0, fmt.Errorf("%w: %w", scheduler.ErrNoTask, err)
	}
	return j.Job, j.Revision, err
}
