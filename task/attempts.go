package task

import "time"

// Try is one attempt as the log tells of it.
type Try struct {
	Attempt int `json:"attempt"`
	// Epoch is the sequence at which it started.
	Epoch     uint64    `json:"epoch"`
	Node      string    `json:"node"`
	Session   string    `json:"session,omitempty"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
	// Outcome is one of the constants below.
	Outcome string `json:"outcome"`
	// Class and Message are those of a failure; Message says otherwise why it was ended.
	Class   string `json:"class,omitempty"`
	Message string `json:"message,omitempty"`
	Exit    *int   `json:"exit,omitempty"`
	Usage   *Usage `json:"usage,omitempty"`
	// Retry is the attempt that follows a failure, and Reason why none does, or why then.
	Retry  *RetryPlan `json:"retry,omitempty"`
	Reason string     `json:"reason,omitempty"`
}

// Outcomes of a [Try].
const (
	TryRuns      = "running"
	TryFinished  = "finished"
	TryFailed    = "failed"
	TryReleased  = "released"   // its node gave it back
	TryLost      = "lost"       // its node was gone
	TryTakenOver = "taken_over" // its lease ran out, and the next attempt began
	TryCancelled = "cancelled"
	TryAbnormal  = "abnormal" // its task was given up
)

// Unheard tells whether the attempt ended without a word of its worker. What it printed last may then
// be missing: what the worker had not stored yet, which is 0.1 s of it or half a MiB, at the most twice that.
func (t *Try) Unheard() bool {
	return t.Outcome == TryLost || t.Outcome == TryTakenOver || t.Outcome == TryAbnormal
}

// Tries lists the attempts of a task by its history, in the order of the log. What
// did not count, because the task had moved on, is not among them.
func Tries(history []Recorded) []Try {
	var tries []Try
	var t Task
	for _, r := range history {
		was := t
		t = Evolve(t, r)
		if n := len(tries); n > 0 && was.Live() && (!t.Live() || t.Epoch != was.Epoch) { // a parent runs without an attempt
			tries[n-1].end(r)
		}
		if e, ok := r.Event.(AttemptStarted); ok && r.Chain && t.Epoch == r.Seq {
			tries = append(tries, Try{Attempt: e.Attempt, Epoch: r.Seq, Node: e.Node, Session: e.Session, StartedAt: r.At, Outcome: TryRuns})
		}
	}
	return tries
}

// end notes what an attempt came to.
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
	// PhaseStop is from when it was asked to end until nothing is left of it, within timeout.stop.
	PhaseStop = "stop"
)

// Left is what was kept of what an attempt has left.
type Left struct {
	Task    ID     `json:"task"`
	Attempt int    `json:"attempt"`
	Epoch   uint64 `json:"epoch"`
	Node    string `json:"node,omitempty"`
	// Digest is the version of the files; "" if they were refused.
	Digest string    `json:"digest,omitempty"`
	Files  int       `json:"files"`
	Bytes  int64     `json:"bytes"`
	At     time.Time `json:"at"`
	// Refused says why they were not stored.
	Refused string `json:"refused,omitempty"`
}
