package task

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"millrace/task/job"
	"millrace/task/param"
	"millrace/task/value"
)

// Durable is what a task's function has done for good, and what it waits for. It is never modified:
// facts replace it.
type Durable struct {
	// Steps are in the order in which the function came to them.
	Steps []Step `json:"steps,omitzero"`
	// Parked is what the function waits for without a worker; nil if for nothing.
	Parked *Parked `json:"parked,omitzero"`
}

// Step is a step of a function, which is done once. An attempt that runs the function again is given
// its result.
type Step struct {
	// Name is the function's own name for it, and Kind one of the kinds below.
	Name string `json:"name,omitzero" redact:"keep"`
	Kind string `json:"kind" redact:"word"`
	// Result is what it gave, as JSON; nil for nothing, and for what is stored apart from the log. That has
	// Size bytes, and Digest is its SHA-256 in hexadecimal digits.
	Result json.RawMessage `json:"result,omitzero" form:"null" redact:"drop"`
	Digest string          `json:"digest,omitzero" redact:"drop"`
	Size   int             `json:"size,omitzero"`
	// Error says why it failed; "" if it did not. Tries is how often it was tried, if it has failed.
	Error string `json:"error,omitzero" redact:"hide"`
	Tries int    `json:"tries,omitzero"`
	// Open says that it failed, and is tried again.
	Open bool `json:"open,omitzero"`
	// At is when it was done, and Took how long the last try took, or the wait.
	At   time.Time      `json:"at,omitzero"`
	Took value.Duration `json:"took,omitzero"`
}

// Kinds of steps.
const (
	StepDo    = "step"  // a part of the function
	StepSleep = "sleep" // until a time
	StepAwait = "await" // a signal
	StepCall  = "call"  // children
	StepNow   = "now"   // the time, as it was when the function first asked
	StepID    = "id"    // a fresh id
	StepAs    = "version"
)

// Park is what a function waits for, and where.
type Park struct {
	// Step and Kind name the step. A [StepDo] waits for its next try.
	Step string `json:"step,omitzero" redact:"keep"`
	Kind string `json:"kind" redact:"word"`
	// Until is when a sleep or the pause before another try ends, and how long a signal may take; zero for
	// ever.
	Until time.Time `json:"until,omitzero"`
	// Form is what the answer to an await must be, as a job declares parameters; none for any JSON. Alone says
	// that the answer is the value of the form's only field.
	Form  []param.Param `json:"form,omitzero"`
	Alone bool          `json:"alone,omitzero"`
	// Of are the children of a call.
	Of []Need `json:"of,omitzero"`
}

// Parked is a [Park] that is in force.
type Parked struct {
	Park
	// Since is when the wait began.
	Since time.Time `json:"since,omitzero"`
	// Before are the task's own needs, which had been met.
	Before *Needs `json:"before,omitzero"`
}

// AttemptStepped records steps that an attempt has done.
type AttemptStepped struct {
	Attempt int    `json:"attempt,omitzero"`
	Epoch   uint64 `json:"epoch,omitzero"`
	// First is the place of the first of the steps: how many were done before.
	First int    `json:"first,omitzero"`
	Steps []Step `json:"steps"`
}

// AttemptParked ends an attempt whose function waits. The task frees its slot, its lease and its place
// in limits; another attempt goes on behind the step.
type AttemptParked struct {
	Attempt int    `json:"attempt,omitzero"`
	Epoch   uint64 `json:"epoch,omitzero"`
	Park    Park   `json:"park"`
	// Steps are those that were done and not recorded yet, and First the place of the first of them.
	First int    `json:"first,omitzero"`
	Steps []Step `json:"steps,omitzero"`
	Usage *Usage `json:"usage,omitzero"`
}

func (AttemptStepped) isEvent() {}
func (AttemptParked) isEvent()  {}

// Remember records steps of the attempt with this epoch.
type Remember struct {
	Epoch uint64
	First int
	Steps []Step
}

// Suspend gives the task back while its function waits.
type Suspend struct {
	Epoch uint64
	Park  Park
	First int
	Steps []Step
	Usage *Usage
}

func (Remember) isCommand() {}
func (Suspend) isCommand()  {}

// Bounds of the steps of a task.
const (
	MaxSteps      = 1000
	MaxStepResult = 64 << 10  // bytes of one result in the log
	MaxStepsSize  = 256 << 10 // bytes of all results in the log
	MaxStepApart  = 64 << 20  // bytes of one that is stored apart
	// stepsApart is how many bytes of results the log has before all others are stored apart. It leaves room
	// for what cannot be: times, signals, and results of children.
	stepsApart = MaxStepsSize / 2
)

// ErrSteps: a task has more steps, or larger results, than it may.
var ErrSteps = errors.New("too much to remember")

// Done is how many steps the function has done for good.
func (d *Durable) Done() int {
	if d == nil {
		return 0
	}
	n := len(d.Steps)
	if n > 0 && d.Steps[n-1].Open {
		n--
	}
	return n
}

// follow refuses steps that do not follow those that are done: each is made once.
func (t *Task) follow(first int, more []Step) error {
	if is := t.Durable.Done(); len(more) > 0 && first != is {
		return fmt.Errorf("%w: step %q is to be step %d, and %d are done", ErrMovedOn, more[0].Name, first+1, is)
	}
	return t.CheckSteps(more)
}

// Apart tells whether the result of a step more, of some bytes, is to be stored apart from the log.
func (t *Task) Apart(size int) bool {
	return size > MaxStepResult || size+t.Durable.size() > stepsApart
}

// StepsApart are the steps of a fact whose results are stored apart from the log.
func StepsApart(e any) []Step {
	var steps []Step
	switch e := e.(type) {
	case AttemptStepped:
		steps = slices.Clone(e.Steps)
	case Carried:
		if e.Fold.Durable != nil {
			steps = slices.Clone(e.Fold.Durable.Steps)
		}
	}
	return slices.DeleteFunc(steps, func(s Step) bool { return s.Digest == "" })
}

// size is how many bytes of results the log has.
func (d *Durable) size() (n int) {
	if d != nil {
		for i := range d.Steps {
			n += len(d.Steps[i].Result)
		}
	}
	return n
}

// CheckSteps tells whether a task may have these steps more.
func (t *Task) CheckSteps(more []Step) error {
	size, n := t.Durable.size(), len(more)
	if t.Durable != nil {
		n += len(t.Durable.Steps)
	}
	for i := range more {
		of, most := len(more[i].Result), MaxStepResult
		if more[i].Digest != "" {
			of, most = more[i].Size, MaxStepApart
		} else {
			size += of
		}
		if of > MaxStepApart {
			most = MaxStepApart // what is between would have been stored apart
		}
		if of > most {
			return fmt.Errorf("%w: the result of step %q has %d bytes, want at most %d: store it elsewhere, and return where", ErrSteps, more[i].Name, of, most)
		}
	}
	switch {
	case n > MaxSteps:
		return fmt.Errorf("%w: %d steps, want at most %d: call a child for a part of them", ErrSteps, n, MaxSteps)
	case size > MaxStepsSize:
		return fmt.Errorf("%w: the results of all steps have %d bytes, want at most %d: store them elsewhere, and return where", ErrSteps, size, MaxStepsSize)
	}
	return nil
}

// room returns the steps if the task may have them more, else none: an end is refused for no such reason.
func (t *Task) room(drawn []Step) []Step {
	if len(drawn) == 0 || t.CheckSteps(drawn) != nil {
		return nil
	}
	return drawn
}

func remember(t *Task, c Remember) (Event, error) {
	if err := t.follow(c.First, c.Steps); err != nil {
		return nil, err
	}
	return AttemptStepped{Attempt: t.Attempt, Epoch: c.Epoch, First: c.First, Steps: c.Steps}, nil
}

func suspend(t *Task, c Suspend) (Event, error) {
	if t.State == Cancelling {
		return CancelConfirmed{Reason: t.Message, Epoch: c.Epoch, Usage: c.Usage}, nil
	}
	if err := t.follow(c.First, c.Steps); err != nil {
		return nil, err
	}
	return AttemptParked{Attempt: t.Attempt, Epoch: c.Epoch, Park: c.Park, First: c.First, Steps: c.Steps, Usage: c.Usage}, nil
}

// Waits returns what the function waits for without a worker; nil if for nothing.
func (t *Task) Waits() *Parked {
	if t.Durable == nil {
		return nil
	}
	return t.Durable.Parked
}

// Signal is the signal for which the task waits, or may wait: that of its function, else that of its
// job. Nil if there is none.
func (t *Task) Signal() *job.Signal {
	if p := t.Waits(); p != nil && p.Kind == StepAwait {
		s := &job.Signal{Name: p.Step, OnTimeout: job.SignalGoOn, Form: p.Form}
		if !p.Until.IsZero() {
			s.Timeout = value.Duration(max(p.Until.Sub(value.Later(t.Since, t.Due)), 1))
		}
		return s
	}
	if t.Spec == nil {
		return nil
	}
	return t.Spec.Signal
}

// Awaiting is [Task.Signal], with how answers to it are written.
func (t *Task) Awaiting() job.Awaiting {
	q := job.Awaiting{Signal: t.Signal()}
	if p := t.Waits(); p != nil && p.Kind == StepAwait {
		q.Alone = p.Alone
	}
	return q
}

// stepped adds steps. Lost nodes before them are forgotten: the task has got further since, so it is not what
// kills its nodes.
func (t *Task) stepped(more []Step) {
	t.Losses = 0
	t.remembers(more)
}

// remembers adds steps. One that is tried again is replaced.
func (t *Task) remembers(more []Step) {
	if len(more) == 0 {
		return
	}
	d := t.durably()
	for _, s := range more {
		if n := len(d.Steps); n > 0 && d.Steps[n-1].Open {
			d.Steps = d.Steps[:n-1]
		}
		d.Steps = append(d.Steps, s)
	}
}

// durably returns a copy of what is remembered, to be changed.
func (t *Task) durably() *Durable {
	d := &Durable{}
	if t.Durable != nil {
		*d = *t.Durable
		d.Steps = slices.Clone(d.Steps)
	}
	t.Durable = d
	return d
}

func (t *Task) parked(e *AttemptParked, r Recorded) {
	t.stepped(e.Steps)
	d := t.durably()
	d.Parked = &Parked{Park: e.Park, Since: r.At, Before: t.Needs}
	if e.Usage != nil {
		t.Usage = e.Usage
	}
	hold := ""
	switch e.Park.Kind {
	case StepAwait:
		hold = HoldSignal
	case StepCall:
		hold, t.Needs = HoldNeeds, &Needs{Of: e.Park.Of}
	}
	if hold == "" {
		t.wait(Scheduled, value.Step, e.Park.Until, r)
		t.heldByLimit()
	} else {
		t.wait(Held, hold, time.Time{}, r)
		t.heldByLimit()
		t.Holds, t.StartBy = append([]string{hold}, t.Holds...), time.Time{}
	}
	t.Message = e.Park.Words()
}

// Words says in words what is waited for.
func (p *Park) Words() string {
	switch p.Kind {
	case StepSleep:
		return fmt.Sprintf("sleeps in step %q", p.Step)
	case StepAwait:
		return fmt.Sprintf("waits for signal %q", p.Step)
	case StepCall:
		if len(p.Of) == 1 {
			return fmt.Sprintf("waits for the child of step %q", p.Step)
		}
		return fmt.Sprintf("waits for %d children of step %q", len(p.Of), p.Step)
	}
	return fmt.Sprintf("step %q failed and is tried again", p.Step)
}

// unparked ends the wait of the function. With done, the step behind it is done.
func (t *Task) unparked(done bool, r Recorded, inputs json.RawMessage, why string) {
	p := t.Waits()
	if p == nil {
		return
	}
	if p.Kind == StepCall {
		t.Needs = p.Before
	}
	d := t.durably()
	d.Parked = nil
	if !done || p.Kind == StepDo {
		return
	}
	s := Step{Name: p.Step, Kind: p.Kind, At: r.At, Result: inputs}
	if !p.Since.IsZero() {
		s.Took = value.Duration(max(r.At.Sub(p.Since), 0))
	}
	if p.Kind == StepAwait {
		if s.Result = member(inputs, p.Step); s.Result == nil {
			s.Error = why
		}
	}
	d.Steps = append(d.Steps, s)
}

// member returns a member of an object; nil if there is none.
func member(object json.RawMessage, name string) json.RawMessage {
	var all map[string]json.RawMessage
	_ = json.Unmarshal(object, &all) // else it has none
	return all[name]
}

// retried takes the failure of a last step back when it has ended the attempt, so that the next attempt
// tries the step again. It tells whether there was one.
func (t *Task) retried() bool {
	if t.Durable == nil {
		return false
	}
	if n := len(t.Durable.Steps); n > 0 && t.Durable.Steps[n-1].Error != "" {
		d := t.durably()
		if d.Steps = d.Steps[:n-1]; n == 1 {
			d.Steps = nil // as whoever reads it from JSON has it
		}
		return true
	}
	return false
}
