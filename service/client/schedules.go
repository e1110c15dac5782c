package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"millrace/events"
	"millrace/events/jet/definitions"
	"millrace/events/jet/rights"
	"millrace/events/submit"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/schedule"
	"millrace/task/value"
)

// PutSchedule stores a schedule under its name. It returns the revision, and whether it was new or
// has changed. A paused one stays paused. The error names the wrong field; it wraps
// [definitions.ErrNoJob] if the schedule's job does not exist, and [ErrInvalid] if the job does not
// accept the parameters. seen is as in [Client.Apply].
func (c *Client) PutSchedule(ctx context.Context, d schedule.Definition, seen ...uint64) (revision uint64, changed bool, err error) {
	if d.Make.Job != "" {
		job, err := c.on.Definitions.Job(ctx, d.Make.Job)
		if err == nil {
			if wrong := d.Make.Fits(&job.Job); wrong != nil {
				err = Wrong(wrong)
			}
		}
		if err != nil {
			return 0, false, fmt.Errorf("schedule %s: %w", d.Name, err)
		}
	}
	revision, changed, err = c.on.Definitions.PutSchedule(ctx, d, c.rec.Actor, seen...)
	return revision, changed, c.overtaken(ctx, task.Named(task.DefSchedule, d.Name), err)
}

// Schedule returns a schedule. The error wraps [definitions.ErrNoSchedule] if there is none.
func (c *Client) Schedule(ctx context.Context, name string) (schedule.Stored, error) {
	if c.role != "" {
		return definedAt(ctx, c, task.DefSchedule, name, 0, definitions.ScheduleIn)
	}
	return c.on.Definitions.Schedule(ctx, name)
}

// Schedules returns all schedules by name, and the errors of those that are not valid.
func (c *Client) Schedules(ctx context.Context) ([]schedule.Stored, error) {
	if c.role != "" {
		return SchedulesOf(ctx, c.View())
	}
	return c.on.Definitions.Schedules(ctx)
}

// RemoveSchedule removes a schedule; its tasks stay. The error wraps [definitions.ErrNoSchedule] if
// there is none.
func (c *Client) RemoveSchedule(ctx context.Context, name string) error {
	return c.on.Definitions.RemoveSchedule(ctx, name, c.rec.Actor)
}

// PauseSchedule keeps a schedule from making tasks; false if it was paused already. The error wraps
// [definitions.ErrNoSchedule] if there is none.
func (c *Client) PauseSchedule(ctx context.Context, name, reason string) (changed bool, err error) {
	return c.store.PauseSchedule(ctx, name, c.rec.Actor, reason)
}

// ResumeSchedule lets a schedule make tasks from now on; false if it was not paused. The error wraps
// [definitions.ErrNoSchedule] if there is none.
func (c *Client) ResumeSchedule(ctx context.Context, name, reason string) (changed bool, err error) {
	return c.store.ResumeSchedule(ctx, name, c.rec.Actor, reason)
}

// RunSchedule makes a task of a schedule now. Fields of over override the schedule's; see
// [birth.Submission.With]. It must not set job, spec or id. The error wraps
// [definitions.ErrNoSchedule] if there is none, else it is one of [Client.Submit]'s.
func (c *Client) RunSchedule(ctx context.Context, name string, over birth.Submission) (Receipt, error) {
	err := submit.Outside(&over)
	if err == nil && (over.ID != "" || over.Job != "" || over.Spec != nil) {
		err = fmt.Errorf("%w: task.id, task.job and task.spec follow from the schedule; leave them out", ErrInvalid)
	}
	if err != nil {
		return Receipt{}, fmt.Errorf("run schedule %s: %w", name, err)
	}
	stored, err := c.on.Definitions.Schedule(ctx, name)
	if err != nil {
		return Receipt{}, err
	}
	r, err := c.desk.Submit(ctx, stored.Submission(c.Now(), task.TriggerManual).With(over))
	return r, submitting(err)
}

// RunTick makes the task of one tick of a schedule, usually a past one. A tick that has a task gets
// no second one: then the receipt is the first one's, and made is false.
func (c *Client) RunTick(ctx context.Context, name string, tick time.Time) (receipt Receipt, made bool, err error) {
	stored, err := c.on.Definitions.Schedule(ctx, name)
	if err != nil {
		return Receipt{}, false, err
	}
	receipt, err = c.desk.Submit(ctx, stored.Submission(tick, task.TriggerBackfill))
	return receipt, err == nil && !receipt.Again && !receipt.Existing, submitting(err)
}

// PingMonitor asks a server to tell a monitor how its program is. nothing says why that has changed nothing.
func (c *Client) PingMonitor(ctx context.Context, name string, p schedule.Ping) (nothing string, err error) {
	var is struct{ Nothing string }
	err = c.ask(ctx, rights.MonitorPing, struct {
		Name string `json:"name"`
		schedule.Ping
	}{name, p}, &is)
	return is.Nothing, err
}

// RunPinged makes the task of a ping for which no planned run of a monitor waits; there may be one already.
func (c *Client) RunPinged(ctx context.Context, of *schedule.Stored, tick time.Time, p *schedule.Ping) error {
	s := of.Submission(tick, task.TriggerBackfill)
	s.Params = p.Params()
	if _, err := c.desk.Submit(ctx, s); !errors.Is(err, ErrOther) {
		return submitting(err)
	}
	return nil
}

// TickReport says what became of one planned run.
type TickReport struct {
	// Tick is the logical time, and Due when its task was to be made, jitter included.
	Tick time.Time `json:"tick"`
	Due  time.Time `json:"due,omitzero"`
	// Outcome is task (it has one), skipped, waiting, due (only just), hole (it passed without a
	// task, for an unknown reason), next (it is to come) or forgotten (with the front of the log).
	Outcome string `json:"outcome"`
	// Why explains the outcome in words, "" if there is nothing to add. Reason is the code of a skip.
	Why    string `json:"why,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Task is its task, "" for none, State that task's state, and Made when it was submitted.
	Task  task.ID    `json:"task,omitempty"`
	State task.State `json:"state,omitzero"`
	Made  time.Time  `json:"made,omitzero"`
	// Trigger says why the schedule made the task: schedule, catchup, backfill or manual.
	Trigger string `json:"trigger,omitempty"`
	// Late is how much later than due the schedule made the task.
	Late value.Duration `json:"late,omitempty"`
}

// Outcomes of ticks.
const (
	TickTask    = "task"
	TickSkipped = "skipped"
	TickWaiting = "waiting"
	TickDue     = "due"
	TickHole    = "hole"
	TickNext    = "next"
	TickForgot  = "forgotten"
)

// Ticks compares the ticks that a schedule should have had since a time with the log: the latest
// ones, at most most.
func (c *Client) Ticks(ctx context.Context, stored *schedule.Stored, since time.Time, most int) ([]TickReport, error) {
	return TicksOf(ctx, c.store.Decisions, c.View(), view.Point{At: c.Now()}, stored, since, time.Time{}, most)
}

// TicksOf is [Client.Ticks] in a view of a place in the log. decided reads the decisions on ticks
// since a time; decisions after the sequence of the place, if that is set, do not count. It ends at
// until, if that is set and before the place.
func TicksOf(ctx context.Context, decided func(ctx context.Context, name string, from time.Time) ([]events.Record, error), v view.View, at view.Point, stored *schedule.Stored, since, until time.Time, most int) ([]TickReport, error) {
	plan, err := stored.Plan()
	if err != nil {
		return nil, err
	}
	var expected []schedule.Tick
	for _, span := range stored.Owing(at.At) {
		last := span.Until
		if !until.IsZero() && until.Before(last) {
			last = until
		}
		some, _ := plan.Between(value.Later(since, span.Since), last, maxExpected)
		for i := range some {
			if stored.Paused == nil && span.Until.Equal(at.At) || !some[i].Due.After(span.Until) {
				expected = append(expected, some[i])
			}
		}
	}
	expected = expected[max(0, len(expected)-most):]
	if len(expected) == 0 {
		return nil, nil
	}
	decisions, err := decided(ctx, stored.Name, expected[0].At.Add(-time.Minute))
	if err != nil {
		return nil, err
	}
	if at.Seq > 0 {
		decisions = slices.DeleteFunc(decisions, func(r events.Record) bool { return r.Seq > at.Seq })
	}
	reports := make([]TickReport, len(expected))
	for i, t := range expected {
		if reports[i], err = tick(ctx, v, stored.Name, t, decisions, at.At); err != nil {
			return nil, err
		}
	}
	return reports, nil
}

// maxExpected bounds how many ticks are computed to find the latest ones.
const maxExpected = 100_000

func tick(ctx context.Context, v view.View, name string, t schedule.Tick, decisions []events.Record, now time.Time) (TickReport, error) {
	is, err := view.GetTask(ctx, v, schedule.TaskID(name, t.At))
	if errors.Is(err, task.ErrUnknown) {
		return reportOn(name, t, decidedOn(decisions, t.At), nil, now), nil
	}
	made := view.PlannedOf(&is)
	return reportOn(name, t, decidedOn(decisions, t.At), &made, now), err
}

// decidedOn is what the decisions on the ticks of a schedule say of one; its outcome is "" if they say nothing.
func decidedOn(decisions []events.Record, at time.Time) (r TickReport) {
	for i := range decisions {
		if !schedule.Decides(decisions[i].Fact.Event, at) {
			continue
		}
		switch e := decisions[i].Fact.Event.(type) {
		case task.ScheduleAdmitted:
			r = TickReport{Outcome: TickTask, Why: e.Detail, Trigger: e.Trigger}
		case task.ScheduleSkipped:
			r = TickReport{Outcome: TickSkipped, Why: e.Reason + ": " + e.Detail, Reason: e.Reason}
		case task.ScheduleQueued:
			r = TickReport{Outcome: TickWaiting, Why: e.Detail, Trigger: e.Trigger}
		}
	}
	return r
}

// reportOn says what became of a tick, by the decision on it, and by its task, nil for none.
func reportOn(name string, t schedule.Tick, decided TickReport, made *view.Planned, now time.Time) TickReport {
	r := decided
	r.Tick, r.Due = t.At, t.Due
	switch {
	case r.Outcome != "":
	case t.At.After(now):
		r.Outcome = TickNext
	case t.Due.After(now.Add(-schedule.Grace)):
		r.Outcome = TickDue
	default:
		r.Outcome, r.Why = TickHole, "nothing is known of it"
	}
	if made == nil {
		if r.Outcome == TickTask {
			r.Outcome, r.Why = TickHole, "it was to get a task, which is not there"
		}
		return r
	}
	switch {
	case r.Reason == task.SkipStranger || made.Schedule != name || !made.Tick.Equal(t.At):
		r.Outcome, r.Why = TickHole, "another task has the id of its task: the schedule has not made it"
	case r.Outcome != TickTask:
		r.Outcome, r.Why, r.Reason = TickTask, "", ""
	}
	r.Task, r.State, r.Trigger, r.Made = schedule.TaskID(name, t.At), made.State, made.Trigger, made.Made
	if r.Trigger == task.TriggerSchedule || r.Trigger == task.TriggerCatchUp {
		r.Late = value.Duration(max(made.Made.Sub(t.Due), 0))
	}
	return r
}

// applySchedules makes the schedules of a job match the job's definition.
func (c *Client) applySchedules(ctx context.Context, j *job.Job) (changed bool, err error) {
	of := schedule.OfJob(j)
	for i := range of {
		_, one, err := c.on.Definitions.PutSchedule(ctx, of[i], c.rec.Actor)
		if changed = changed || one; err != nil {
			return changed, err
		}
	}
	also, err := c.removeSchedulesOf(ctx, j.Name, of)
	return changed || also, err
}

// removeSchedulesOf removes the schedules that came with a job, except for those to keep.
func (c *Client) removeSchedulesOf(ctx context.Context, job string, keep []schedule.Definition) (changed bool, err error) {
	own, _, err := c.SchedulesOfJob(ctx, job)
	for _, name := range own {
		if slices.ContainsFunc(keep, func(d schedule.Definition) bool { return d.Name == name }) {
			continue
		}
		wrong := c.on.Definitions.RemoveSchedule(ctx, name, c.rec.Actor)
		switch {
		case wrong == nil:
			changed = true
		case !errors.Is(wrong, definitions.ErrNoSchedule): // else another process was faster
			return changed, wrong
		}
	}
	return changed, err
}

// SchedulesOfJob returns the names of the schedules that make tasks of a job: of those that came
// with it and go with it, and of the others.
func (c *Client) SchedulesOfJob(ctx context.Context, job string) (own, others []string, err error) {
	all, err := c.on.Definitions.Schedules(ctx)
	if err != nil && all == nil {
		return nil, nil, err
	}
	for i := range all { // one that cannot be read makes no tasks
		switch s := &all[i]; {
		case s.Make.Job != job:
		case s.OfJob:
			own = append(own, s.Name)
		default:
			others = append(others, s.Name)
		}
	}
	return own, others, nil
}

// RefusesSchedule returns why a valid schedule would not be stored now, nil if it would. Stored
// returns the one of the same name; its error wraps [definitions.ErrNoSchedule] if there is none.
func RefusesSchedule(d schedule.Definition, stored func(name string) (schedule.Stored, error), now time.Time) error {
	var was *schedule.Definition
	switch is, err := stored(d.Name); {
	case err == nil:
		was = &is.Definition
	case !errors.Is(err, definitions.ErrNoSchedule) && !errors.Is(err, definitions.ErrBadSchedule):
		return nil // storing it tells
	}
	_, _, err := d.Over(was, now)
	return err
}

// RefusesSchedule is [RefusesSchedule] for the schedules that are stored.
func (c *Client) RefusesSchedule(ctx context.Context, d schedule.Definition) error {
	return RefusesSchedule(d, func(name string) (schedule.Stored, error) { return c.on.Definitions.Schedule(ctx, name) }, c.Now())
}
