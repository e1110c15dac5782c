package client

import (
	"context"
	"fmt"
	"time"

	"millrace/events"
	"millrace/jet/definitions"
	"millrace/task/breaker"
	"millrace/task/definition"
	"millrace/task/job"
	"millrace/task/schedule"
)

// Apply stores a job under its name. It returns the revision, and whether the
// job was new or different from what was there. The error names the field that
// is wrong. The schedule that the job has, or no longer has, is stored or removed with it; if that
// fails, applying the same again does it. Seen is the revision that it follows, 0 for none; any if it is left out. If it follows another one, the
// error is an [*Overtaken].
func (c *Client) Apply(ctx context.Context, j job.Job, seen ...uint64) (revision uint64, changed bool, err error) {
	if j.Schedule != nil {
		if err := schedule.Validate(j.Name, *j.Schedule); err != nil {
			return 0, false, fmt.Errorf("job %s: schedule.%w", j.Name, err)
		}
	}
	revision, changed, err = c.store.PutJob(ctx, j, c.rec.Actor, seen...)
	if err != nil {
		return revision, changed, c.overtaken(ctx, definition.Named(definition.DefJob, j.Name), err)
	}
	also, err := c.applySchedule(ctx, &j)
	return revision, changed || also, err
}

// Job returns a job. The error wraps [definitions.ErrNoJob] if there is none.
func (c *Client) Job(ctx context.Context, name string) (definitions.StoredJob, error) {
	return c.store.Job(ctx, name)
}

// JobAt returns a job as it was at a revision, the present one for 0. The error wraps [definitions.ErrNoJob] if there was none.
func (c *Client) JobAt(ctx context.Context, name string, revision uint64) (definitions.StoredJob, error) {
	return c.store.StoredJobAt(ctx, name, revision)
}

// Jobs returns all jobs by name.
func (c *Client) Jobs(ctx context.Context) ([]definitions.StoredJob, error) { return c.store.Jobs(ctx) }

// RemoveJob removes a job and the schedule that came with it; its tasks stay. The error wraps [definitions.ErrNoJob] if there is none.
func (c *Client) RemoveJob(ctx context.Context, name string) error {
	if _, err := c.removeScheduleOf(ctx, name); err != nil {
		return err
	}
	return c.store.RemoveJob(ctx, name, c.rec.Actor)
}

// Breaker returns how the breaker of a job stands; one of which there is no fact is closed.
func (c *Client) Breaker(ctx context.Context, job string) (breaker.Circuit, error) {
	return c.rec.Circuit(ctx, job)
}

// ResetBreaker closes the breaker of a job and returns how it stood before. One that is
// closed stays as it is. What was held back starts at the time that it was held until.
func (c *Client) ResetBreaker(ctx context.Context, job, reason string) (was breaker.Circuit, err error) {
	was, _, err = c.rec.DoBreaker(ctx, job, func(is breaker.Circuit, _ time.Time) events.Verdict {
		if is.Closed() {
			return events.Verdict{}
		}
		return events.Verdict{Event: breaker.Closed{Reason: reason}}
	})
	return was, err
}
