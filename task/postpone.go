package task

import "time"

// Postpone makes a task that waits under an offer wait until a time; After is the turn of the
// offer. Reason is a code, Detail words.
type Postpone struct {
	After          uint64
	Reason, Detail string
	Due            time.Time
}

func (Postpone) isCommand() {}

// Postponed makes a waiting task wait until a time. Its offer becomes stale, and another is placed
// at that time.
type Postponed struct {
	// Reason is the name of the rule that postpones it ([job.Rule.Name]). Detail explains it in
	// words.
	Reason string    `json:"reason,omitzero" redact:"word"`
	Detail string    `json:"detail,omitzero" redact:"hide"`
	Due    time.Time `json:"due,omitzero"`
}

func (Postponed) isEvent() {}

func postpone(t *Task, c Postpone) (Event, error) {
	switch {
	case t.State.Terminal():
		return nil, ErrEnded
	case !t.Waiting() || t.State == Held || c.After != t.Turn:
		return nil, ErrStale
	}
	return Postponed{Reason: c.Reason, Detail: c.Detail, Due: c.Due}, nil
}

func (t *Task) postponed(e *Postponed, r Recorded) {
	if !t.Waiting() || t.State == Unknown || t.State == Held {
		return
	}
	// The bounds on the wait stay.
	t.enter(Scheduled, e.Reason, e.Detail, r)
	t.Due, t.Turn, t.Offered = e.Due, r.Seq, false
	t.heldByLimit() // meanwhile its place is free
	t.unrate()
}
