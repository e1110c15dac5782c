package schedule

import (
	"errors"
	"fmt"
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
	// Make is the submission for each tick: a job, which is looked up at each tick, or a spec. Its
	// id, delay, at and origin must be empty.
	Make birth.Submission `json:"task"`
	// OfJob says that the schedule came with the job of its name, and is removed with it.
	OfJob bool `json:"of_job,omitempty"`
	// Anchor is the origin of [job.Schedule.Every] without a start. The store sets it.
	Anchor time.Time `json:"anchor,omitzero"`
	// Since is when the definition got its present form, or was resumed: earlier ticks are not
	// owed. The store sets it.
	Since time.Time `json:"since,omitzero"`
	// Paused says why the schedule makes no tasks; nil if it does.
	Paused *Pause `json:"paused,omitempty"`
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

// Plan compiles the definition, so that it can compute its ticks.
func (d *Definition) Plan() (*Plan, error) { return Compile(d.Name, d.When, d.Anchor) }

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
	m := &d.Make
	switch {
	case m.ID != "" || m.Delay != 0 || !m.At.IsZero() || m.Origin != (task.Origin{}) || m.Parent != "":
		return errors.New("task: id, delay, at, parent and the origin follow from the tick; leave them out")
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
