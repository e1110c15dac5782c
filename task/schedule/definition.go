package schedule

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"millrace/task"
	"millrace/task/job"
	"millrace/task/value"
)

// Definition is a schedule as it is stored: when, and what.
type Definition struct {
	// Name is 1 to 64 letters, digits, '_' or '-'.
	Name string `json:"name"`
	// When says when tasks are made.
	When job.Schedule `json:"schedule"`
	// Make is what is submitted at each tick: a job, which is looked up at each tick, or a spec. Its
	// id, delay, at and origin must be empty.
	Make task.Submission `json:"task"`
	// OfJob is whether the schedule came with the job of its name, and goes with it.
	OfJob bool `json:"of_job,omitempty"`
	// Anchor is from when [job.Schedule.Every] is counted without a start. The store sets it.
	Anchor time.Time `json:"anchor,omitzero"`
	// Since is when the definition became what it is, or was resumed: earlier ticks are not owed. The store sets it.
	Since time.Time `json:"since,omitzero"`
	// Paused says why nothing fires; nil if it does.
	Paused *Pause `json:"paused,omitempty"`
}

// Pause is why a schedule does not fire.
type Pause struct {
	At     time.Time `json:"at"`
	Actor  string    `json:"actor,omitempty"`
	Reason string    `json:"reason,omitempty"`
}

// Read reads the text of a definition that is stored under a name.
func Read(name string, text []byte) (d Definition, err error) {
	if err = json.Unmarshal(text, &d); err == nil && d.Name != name {
		err = fmt.Errorf("it calls itself %q", d.Name)
	}
	if err == nil {
		err = d.Validate()
	}
	return d, err
}

// Stored is a definition as it lies in the store.
type Stored struct {
	Definition
	// Revision grows with every change of any schedule.
	Revision uint64    `json:"revision"`
	Changed  time.Time `json:"changed"`
}

// SeenRevision is the revision that whoever looks at it sees.
func (s Stored) SeenRevision() uint64 { return s.Revision }

// Change is what was done to a definition.
type Change struct {
	Name string
	// Now is what it has become; nil if it was removed, or cannot be read.
	Now *Stored
}

// Plan makes the definition ready to tell its ticks.
func (d *Definition) Plan() (*Plan, error) { return Compile(d.Name, d.When, d.Anchor) }

// Passed returns the ticks from one time to another, both included, as far as they have passed now: at most so many, and whether there are
// more. It has those as well that came before the definition was stored, as if it had been there.
func (d *Definition) Passed(from, until, now time.Time, most int) (ticks []Tick, more bool, err error) {
	plan, err := d.Plan()
	if err != nil {
		return nil, false, err
	}
	if d.When.Every > 0 && d.When.Start == "" && from.Before(d.Anchor) {
		every, anchor := d.When.Every.Std(), d.Anchor.Truncate(time.Second)
		if plan, err = Compile(d.Name, d.When, anchor.Add(-anchor.Sub(from)/every*every-every)); err != nil {
			return nil, false, err
		}
	}
	if until.After(now) {
		until = now
	}
	ticks, more = plan.Between(from.Add(-time.Nanosecond), until, most)
	return ticks, more, nil
}

// Validate refuses a definition that could not be stored and names the field.
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
	// What a spec becomes is checked as a submission is.
	if _, err := task.Birth(*m, nil, 0, time.Time{}); err != nil {
		return fmt.Errorf("task: %w", err)
	}
	return nil
}

// Submission is what to submit for a tick.
func (d *Definition) Submission(tick time.Time, trigger string) task.Submission {
	s := d.Make
	s.Origin = task.Origin{Schedule: d.Name, Tick: tick.UTC(), Trigger: trigger}
	if trigger != task.TriggerManual {
		s.ID = TaskID(d.Name, tick)
	}
	return s
}
