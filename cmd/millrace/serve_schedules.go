package main

import (
	"context"
	"errors"
	"fmt"

	"millrace/jet"
	"millrace/scheduler"
	"millrace/task"
)

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
