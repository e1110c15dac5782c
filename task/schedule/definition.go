package schedule

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/value"
)

// Definition is a schedule as it is stored: when to make tasks, and which.
type Definition struct {
	// Name is 1 to 64 letters, digits, '_' or '-'.
	Name string `json:"name" redact:"keep"`
	// When says when tasks are made.
	When job.Schedule `json:"schedule"`
	// Make is the submission for each planned run: a job, which is looked up at each planned run, or a spec. Its
	// id, delay, at and origin must be empty.
	Make birth.Submission `json:"task"`
	// Notify are who is told of what becomes of its tasks, and of its missed planned runs, beside whom their job
	// and queue name.
	Notify []job.Notify `json:"notify,omitempty"`
	// OfJob says that the schedule came with the job that it makes tasks of, and goes with it.
	OfJob bool `json:"of_job,omitempty" readOnly:"true"`
	// Rules is [DaysAsCron] if the cron expression means something else by that rule than by the one
	// before it, which is in force without. The store sets it.
	Rules int `json:"rules,omitempty" least:"0" readOnly:"true"`
	// Anchor is the origin of [job.Schedule.Every] without a start. The store sets it.
	Anchor time.Time `json:"anchor,omitzero" readOnly:"true"`
	// Since is when the definition got its present form, or was resumed: earlier planned runs are not
	// owed. The store sets it.
	Since time.Time `json:"since,omitzero" readOnly:"true"`
	// Paused says why the schedule makes no tasks; nil if it does.
	Paused *Pause `json:"paused,omitempty" readOnly:"true"`
	// Lapses are the times before its last pauses, the earliest first. The store sets them when the
	// schedule is resumed, and keeps at most [maxLapses].
	Lapses []Lapse `json:"lapses,omitempty" readOnly:"true"`
}

// Lapse is a span of time that ended with a pause. Planned runs of it that have no decision yet get none but
// that they are left out.
type Lapse struct {
	// Since is when the schedule had got its form or was resumed, and Until when it was paused.
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
}

// Pause says why a schedule makes no tasks.
type Pause struct {
	// At is when it was paused, and Actor who did that. Reason is what that person said.
	At     time.Time `json:"at"`
	Actor  string    `json:"actor,omitempty" redact:"actor"`
	Reason string    `json:"reason,omitempty" redact:"hide"`
}

// Read parses the stored text of a definition.
func Read(name string, text []byte) (Definition, error) {
	return value.ReadNamed(name, text, func(d *Definition) string { return d.Name }, (*Definition).Validate)
}

// Stored is a definition in the store.
type Stored struct {
	Definition
	// Revision grows with every change of any schedule.
	Revision uint64 `json:"revision"`
	// Changed is when that was.
	Changed time.Time `json:"changed"`
}

// SeenRevision is the revision that a viewer of it sees.
func (s Stored) SeenRevision() uint64 { return s.Revision }

// Change is a change of a definition.
type Change struct {
	Name string
	// Now is the new state; nil if it was removed, or cannot be read.
	Now *Stored
}

// DaysAsCron is the rule for expressions with both day fields: if either begins with *, a day must
// match both. Before, either was enough unless one was a bare *.
const DaysAsCron = 1

// Ruled sets the rules by which the definition is read from now on: the present ones.
func (d *Definition) Ruled() {
	d.Rules = 0
	if p, err := Compile(d.Name, d.When, d.Anchor); err == nil && p.fields.days.both != p.fields.days.wasBoth {
		d.Rules = DaysAsCron
	}
}

// Plan compiles the definition, so that it can compute its ticks. It follows [Definition.Rules].
func (d *Definition) Plan() (*Plan, error) {
	p, err := Compile(d.Name, d.When, d.Anchor)
	if err == nil && d.Rules < DaysAsCron {
		p.fields.days.both = p.fields.days.wasBoth
	}
	return p, err
}

// Refusal says why a valid definition is not stored.
type Refusal struct{ why error }

// Error implements error.
func (r *Refusal) Error() string { return r.why.Error() }

// Over returns what a definition becomes when it is stored at a time in place of was, nil for
// none, and whether that is a change: the anchor and a pause stay. The error is a [*Refusal] if no
// tick of a changed one will ever come, or if the name is another's: a schedule that came with a
// job changes only with that job, and a job takes over only a schedule that makes the same tasks.
func (d Definition) Over(was *Definition, now time.Time) (next Definition, changed bool, err error) {
	next = d
	next.Anchor, next.Since, next.Paused = now, now, nil
	next.Ruled()
	if was != nil {
		next.Anchor, next.Paused = was.Anchor, was.Paused
		same := next
		if same.Since, same.Lapses = was.Since, was.Lapses; equal(same, *was) {
			return same, false, nil
		}
		switch {
		case was.OfJob && !(d.OfJob && d.Make.Job == was.Make.Job):
			return d, false, &Refusal{fmt.Errorf("name: schedule %s came with job %s: change it there, or choose another name", d.Name, was.Make.Job)}
		case d.OfJob && !was.OfJob && !equal(d.Make, was.Make):
			return d, false, &Refusal{fmt.Errorf("name: there is a schedule %s that did not come with job %s: remove it, or give this one another name", d.Name, d.Make.Job)}
		}
	}
	plan, err := next.Plan()
	if err != nil {
		return d, false, err
	}
	if err := plan.Never(now); err != nil {
		return d, false, &Refusal{err}
	}
	return next, true, nil
}

// Resumed returns the definition of a paused schedule after the pause.
func (d *Definition) Resumed(now time.Time) Definition {
	next := *d
	next.Lapses = d.lapses()
	next.Lapses = next.Lapses[max(0, len(next.Lapses)-maxLapses):]
	next.Paused, next.Since = nil, now
	return next
}

// maxLapses bounds how many lapses a definition remembers: earlier ticks were decided long ago.
const maxLapses = 8

// lapses are those of the definition, the present pause included.
func (d *Definition) lapses() []Lapse {
	if d.Paused == nil {
		return d.Lapses
	}
	return append(slices.Clip(d.Lapses), Lapse{d.Since, d.Paused.At})
}

// Lapsed returns the ticks that were due before a pause and are owed no more, for each pause: those
// after decided, the latest tick with a decision. The plan is the definition's.
func (d *Definition) Lapsed(p *Plan, decided time.Time) (all []Missed) {
	for _, l := range d.lapses() {
		if ticks, _ := p.passed(value.Later(l.Since, decided), l.Until); len(ticks) > 0 {
			all = append(all, Missed{ticks[0].At, ticks[len(ticks)-1].At, len(ticks), task.SkipPaused, "it was due before the schedule was paused, and not decided"})
		}
	}
	return all
}

// Owing are the spans of time whose ticks the schedule owed up to a time, the earliest first.
func (d *Definition) Owing(until time.Time) []Lapse {
	if d.Paused != nil {
		return d.lapses()
	}
	return append(slices.Clip(d.Lapses), Lapse{d.Since, until})
}

func equal(a, b any) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}

// Passed returns the ticks between two times, both included, that have passed by now: at most most
// of them, and whether there are more. It includes ticks from before the definition was stored.
func (d *Definition) Passed(from, until, now time.Time, most int) (ticks []Tick, more bool, err error) {
	plan, err := d.Plan()
	if err != nil {
		return nil, false, err
	}
	if d.When.Every > 0 && d.When.Start == "" && from.Before(d.Anchor) {
		every, anchor := d.When.Every.Std().Milliseconds(), d.Anchor.Truncate(time.Second)
		steps := 1000*(anchor.Unix()-from.Unix())/every + 1
		if plan, err = Compile(d.Name, d.When, later(anchor, -steps*every)); err != nil {
			return nil, false, err
		}
	}
	if until.After(now) {
		until = now
	}
	ticks, more = plan.Between(from.Add(-time.Nanosecond), until, most)
	return ticks, more, nil
}

// Validate refuses an invalid definition and names the field.
func (d *Definition) Validate() error {
	if err := value.ValidName("schedule", d.Name); err != nil {
		return err
	}
	if err := Validate(d.Name, d.When); err != nil {
		return err
	}
	if err := job.ValidNotify(d.Notify); err != nil {
		return err
	}
	m := &d.Make
	switch {
	case m.ID != "" || m.Delay != 0 || !m.At.IsZero() || m.Origin != (task.Origin{}) || m.Parent != "":
		return errors.New("task: id, delay, at, parent and the origin follow from the planned run; leave them out")
	case (m.Job != "") == (m.Spec != nil):
		return errors.New("task: set job, or spec with run or handler")
	case m.Job != "":
		return value.ValidName("job", m.Job)
	}
	// A spec is checked like a submission.
	if _, err := birth.Of(*m, nil, 0, time.Time{}); err != nil {
		return fmt.Errorf("task: %w", err)
	}
	return nil
}

// Submission returns what to submit for a tick.
func (d *Definition) Submission(tick time.Time, trigger string) birth.Submission {
	s := d.Make
	s.Origin = task.Origin{Schedule: d.Name, Tick: tick.UTC(), Trigger: trigger}
	if trigger != task.TriggerManual {
		s.ID = TaskID(d.Name, tick)
	}
	return s
}
