package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"millrace/events"
	"millrace/events/jet/definitions"
	"millrace/events/jet/rights"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/schedule"
)

// Apply stores a job under its name. It returns the revision, and whether the job was new or has
// changed. The error names the wrong field; it is a [*schedule.Refusal] if one of the job's schedules
// is not stored. Apply also stores the job's schedules, and removes those that came with the job and
// that it has no more; if that fails, applying the job again does it. seen is the revision that the change is based on, 0
// for none; any if omitted. If the current revision differs, the error is an [*Overtaken].
func (c *Client) Apply(ctx context.Context, j job.Job, seen ...uint64) (revision uint64, changed bool, err error) {
	return c.ApplyFrom(ctx, j, task.From{}, seen...)
}

// ApplyFrom is [Client.Apply], and says from where the job comes.
func (c *Client) ApplyFrom(ctx context.Context, j job.Job, from task.From, seen ...uint64) (revision uint64, changed bool, err error) {
	err = schedule.ValidateOfJob(&j, "timetable", func(d schedule.Definition) error { return c.RefusesSchedule(ctx, d) })
	if err != nil {
		return 0, false, fmt.Errorf("job %s: %w", j.Name, err)
	}
	revision, changed, err = c.on.Definitions.PutJobFrom(ctx, j, c.rec.Actor, from, seen...)
	if err != nil {
		return revision, changed, c.overtaken(ctx, task.Named(task.DefJob, j.Name), err)
	}
	also, err := c.applySchedules(ctx, &j)
	return revision, changed || also, err
}

// Job returns a job. The error wraps [definitions.ErrNoJob] if there is none.
func (c *Client) Job(ctx context.Context, name string) (definitions.StoredJob, error) {
	return c.JobAt(ctx, name, 0)
}

// JobAt returns a revision of a job, the current one for 0. The error wraps [definitions.ErrNoJob]
// if there was none.
func (c *Client) JobAt(ctx context.Context, name string, revision uint64) (definitions.StoredJob, error) {
	if c.role != "" {
		return definedAt(ctx, c, task.DefJob, name, revision, definitions.JobIn)
	}
	return c.store.StoredJobAt(ctx, name, revision)
}

// Jobs returns all jobs by name.
func (c *Client) Jobs(ctx context.Context) ([]definitions.StoredJob, error) {
	if c.role != "" {
		return JobsOf(ctx, c.View())
	}
	return c.store.Jobs(ctx)
}

// RefusesCircle returns why tasks of a job would not follow the ends of another one: it would follow its own,
// through others, as they are in beside, or else stored.
func (c *Client) RefusesCircle(ctx context.Context, j *job.Job, beside map[string]*job.Job) error {
	circle, err := job.Circle(j.Name, func(name string) (string, error) {
		if name == j.Name {
			return j.On.After(), nil
		}
		if is := beside[name]; is != nil {
			return is.On.After(), nil
		}
		is, err := c.Job(ctx, name)
		if errors.Is(err, definitions.ErrNoJob) || errors.Is(err, definitions.ErrBadJob) {
			return "", nil
		}
		return is.On.After(), err
	})
	if err == nil && circle != nil {
		err = Wrongf("on.job: the job would follow its own ends: %s", strings.Join(circle, " after "))
	}
	return err
}

// InUse: other schedules make tasks of a job that is to be removed.
type InUse struct {
	Job       string
	Schedules []string
}

// Error implements error.
func (u *InUse) Error() string {
	return fmt.Sprintf("job %s: tasks of it are made by the schedules %s: remove them first", u.Job, strings.Join(u.Schedules, ", "))
}

// RemoveJob removes a job and the schedules that came with it; its tasks stay. The error is an
// [*InUse] if other schedules make tasks of it, and wraps [definitions.ErrNoJob] if there is none.
func (c *Client) RemoveJob(ctx context.Context, name string) error {
	if _, others, err := c.SchedulesOfJob(ctx, name); err != nil {
		return err
	} else if len(others) > 0 {
		if _, err := c.store.Job(ctx, name); err != nil {
			return err
		}
		return &InUse{name, others}
	}
	if _, err := c.removeSchedulesOf(ctx, name, nil); err != nil {
		return err
	}
	return c.store.RemoveJob(ctx, name, c.rec.Actor)
}

// Breaker returns the state of a job's breaker; without facts it is closed. The error wraps
// [definitions.ErrNoJob] if there is neither such a job nor such a breaker.
func (c *Client) Breaker(ctx context.Context, job string) (limit.Circuit, error) {
	if c.role != "" {
		var is limit.Circuit
		err := c.ask(ctx, rights.BreakerGet, map[string]string{"name": job}, &is)
		return is, absent(err, definitions.ErrNoJob, job)
	}
	is, err := c.rec.Circuit(ctx, job)
	if err == nil && is.Head == 0 {
		_, err = c.store.Job(ctx, job)
	}
	return is, err
}

// ResetBreaker closes the breaker of a job and returns its state before. A closed one stays as it
// is. Held-back tasks still start at the time until which they were held.
func (c *Client) ResetBreaker(ctx context.Context, job, reason string) (was limit.Circuit, err error) {
	was, _, err = c.rec.DoBreaker(ctx, job, func(is limit.Circuit, _ time.Time) events.Verdict {
		if is.Closed() {
			return events.Verdict{}
		}
		return events.Verdict{Event: limit.Closed{Reason: reason}}
	})
	return was, err
}
