package task

import (
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// Try is one attempt as the log records it.
type Try struct {
	Attempt int `json:"attempt"`
	// Epoch is the sequence at which it started.
	Epoch     uint64    `json:"epoch"`
	Node      string    `json:"node"`
	Session   string    `json:"session,omitempty"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
	// Outcome is one of the Try constants below.
	Outcome string `json:"outcome"`
	// Class and Message describe a failure. Without a failure, Message says why the attempt ended.
	Class   string `json:"class,omitempty"`
	Message string `json:"message,omitempty"`
	Exit    *int   `json:"exit,omitempty"`
	Usage   *Usage `json:"usage,omitempty"`
	// Retry is the attempt that follows a failure. Reason says why there is none, or why at that
	// time.
	Retry  *RetryPlan `json:"retry,omitempty"`
	Reason string     `json:"reason,omitempty"`
}

// Outcomes of a [Try].
const (
	TryRuns      = "running"
	TryFinished  = "finished"
	TryFailed    = "failed"
	TryReleased  = "released"   // its node gave it back
	TryParked    = "parked"     // its function waits without a worker
	TryLost      = "lost"       // its node was gone
	TryTakenOver = "taken_over" // its lease expired, and the next attempt began
	TryCancelled = "cancelled"
	TryAbnormal  = "abnormal" // its task was given up
)

// Unheard tells whether the attempt ended without a report from its worker. Output that the worker
// had not stored yet may then be missing: the last 0.1 s or 512 KiB, at most twice that.
func (t *Try) Unheard() bool {
	return t.Outcome == TryLost || t.Outcome == TryTakenOver || t.Outcome == TryAbnormal
}

// Tries lists the attempts of a task from its history, in the order of the log. It omits facts that
// did not count because the task had moved on.
func Tries(history []Recorded) []Try {
	var tries []Try
	var t Task
	for _, r := range history {
		was := t
		t = Evolve(t, r)
		if _, kept := r.Event.(Kept); kept {
			continue // it tells again what has been
		}
		if n := len(tries); n > 0 && was.Live() && (!t.Live() || t.Epoch != was.Epoch) { // a parent runs without an attempt
			tries[n-1].end(r)
		}
		if e, ok := r.Event.(AttemptStarted); ok && r.Chain && t.Epoch == r.Seq {
			tries = append(tries, Try{
				Attempt:   e.Attempt,
				Epoch:     r.Seq,
				Node:      e.Node,
				Session:   e.Session,
				StartedAt: r.At,
				Outcome:   TryRuns,
			})
		}
	}
	return tries
}

// end records how an attempt ended.
func (t *Try) end(r Recorded) {
	t.EndedAt = r.At
	switch e := r.Event.(type) {
	case AttemptFinished:
		t.Outcome, t.Exit, t.Usage = TryFinished, e.Exit, e.Usage
	case AttemptFailed:
		t.Outcome, t.Class, t.Message, t.Exit, t.Usage = TryFailed, e.Class, e.Message, e.Exit, e.Usage
		t.Retry, t.Reason = e.Retry, e.Reason
	case AttemptReleased:
		t.Outcome, t.Message = TryReleased, e.Reason
	case AttemptParked:
		t.Outcome, t.Message, t.Usage = TryParked, e.Park.Words(), e.Usage
	case AttemptLost:
		t.Outcome, t.Message = TryLost, e.Reason
	case AttemptStarted:
		t.Outcome = TryTakenOver
		if e.TookOver != nil {
			t.Message = e.TookOver.Reason
		}
	case CancelConfirmed:
		t.Outcome, t.Message, t.Exit, t.Usage = TryCancelled, e.Reason, e.Exit, e.Usage
	case GivenUp:
		t.Outcome, t.Message = TryAbnormal, e.Detail
	}
}

// Phases of an attempt.
const (
	// PhaseSetup readies its files and runs its setup commands, within timeout.setup.
	PhaseSetup = "setup"
	// PhaseRun is the command itself, within timeout.run.
	PhaseRun = "run"
	// PhaseStop lasts from the request to end until no process of the attempt is left, at most
	// timeout.stop.
	PhaseStop = "stop"
)

// Left lists the files that were kept from an attempt.
type Left struct {
	// Task, Attempt, Epoch and Node name the attempt.
	Task    ID     `json:"task"`
	Attempt int    `json:"attempt"`
	Epoch   uint64 `json:"epoch"`
	Node    string `json:"node,omitempty"`
	// Digest is the version of the files; "" if they were refused.
	Digest string `json:"digest,omitempty"`
	// Files counts the files, and Bytes their bytes. At is when they were stored.
	Files int       `json:"files"`
	Bytes int64     `json:"bytes"`
	At    time.Time `json:"at"`
	// Refused says why the files were not stored.
	Refused string `json:"refused,omitempty"`
}

// Taken is a step to which a function has come: as people see it.
type Taken struct {
	Step
	// Place is which step it is, from 1, and Is one of the words below.
	Place int    `json:"place"`
	Is    string `json:"state"`
	// From is when its last try or its wait began.
	From time.Time `json:"began,omitzero"`
	// Until is when a sleep or the pause before another try ends, and how long a signal may take; zero
	// if that is over, or for ever.
	Until time.Time `json:"until,omitzero"`
	// Children are those of a call.
	Children []ID `json:"children,omitempty"`
}

// Values of [Taken.Is].
const (
	StepDone   = "done"
	StepFailed = "failed"
	StepAgain  = "failed, and is tried again"
	StepWaits  = "waits"
)

// Taken lists the steps to which the function has come, as far as the log knows: those that are done,
// then the one for which it waits.
func (d *Durable) Taken() (all []Taken) {
	if d == nil {
		return nil
	}
	for i := range d.Steps {
		k := Taken{Step: d.Steps[i], Place: i + 1, Is: StepDone, From: d.Steps[i].At.Add(-d.Steps[i].Took.Std())}
		switch {
		case k.Open:
			k.Is = StepAgain
		case k.Error != "":
			k.Is = StepFailed
		case k.Kind == StepCall:
			var ended map[string]Input
			_ = json.Unmarshal(k.Result, &ended) // else it has none
			for _, name := range slices.Sorted(maps.Keys(ended)) {
				k.Children = append(k.Children, ended[name].Task)
			}
		}
		all = append(all, k)
	}
	p := d.Parked
	if p == nil {
		return all
	}
	if n := len(all); p.Kind == StepDo && n > 0 {
		all[n-1].Until = p.Until
		return all
	}
	k := Taken{Step: Step{Name: p.Step, Kind: p.Kind}, Place: len(all) + 1, Is: StepWaits, From: p.Since, Until: p.Until}
	for _, need := range p.Of {
		k.Children = append(k.Children, need.Task)
	}
	return append(all, k)
}

// CallOf names the step in which the function has called a child; "" for none.
func (d *Durable) CallOf(child ID) string {
	for _, k := range d.Taken() {
		if slices.Contains(k.Children, child) {
			return k.Name
		}
	}
	return ""
}

// Lasted is how long the step took, or has been waited for by now.
func (k *Taken) Lasted(now time.Time) time.Duration {
	if k.Is == StepWaits {
		return max(now.Sub(k.From), 0)
	}
	return k.Took.Std()
}

// State is the state of a task that is where the step is.
func (k *Taken) State() State {
	switch k.Is {
	case StepDone:
		return Finished
	case StepFailed:
		return Error
	case StepAgain:
		return Retrying
	}
	if k.Kind == StepSleep {
		return Scheduled
	}
	return Held
}
