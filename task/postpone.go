package task

import (
	"fmt"
	"strings"
	"time"
)

// Postpone makes a task that waits under an offer wait until a time; After is the turn of the
// offer. Reason is a code, Detail words. Asked says that an operator or the task itself asks for it, in any turn and for a
// task that nothing but its limits may hold; then Reason is empty, and a task that is due later stays so.
type Postpone struct {
	After          uint64
	Asked          bool
	Reason, Detail string
	Due            time.Time
}

func (Postpone) isCommand() {}

// Postponed makes a waiting task wait until a time. Its offer becomes stale, and another is placed
// at that time.
type Postponed struct {
	// Reason is the name of the rule that postpones it ([job.Rule.Name]); "" if an operator or the task itself asked for it.
	// Detail explains it in words.
	Reason string    `json:"reason,omitzero" redact:"word"`
	Detail string    `json:"detail,omitzero" redact:"hide"`
	Due    time.Time `json:"due,omitzero"`
}

func (Postponed) isEvent() {}

func postpone(t *Task, c Postpone) (Event, error) {
	switch {
	case t.State.Terminal():
		return nil, ErrEnded
	case c.Asked && !t.Waiting():
		return nil, fmt.Errorf("%w: it is %s", ErrNotWaiting, t.State)
	case c.Asked && !t.postponable():
		return nil, fmt.Errorf("%w for a time: it is held: %s", ErrNotWaiting, strings.Join(t.Holds, ", "))
	case c.Asked && !t.Due.Before(c.Due):
		return nil, nil
	case !c.Asked && (!t.Waiting() || t.State == Held || c.After != t.Turn):
		return nil, ErrStale
	}
	return Postponed{Reason: c.Reason, Detail: c.Detail, Due: c.Due}, nil
}

// postponable tells whether the task waits, and nothing but its limits holds it.
func (t *Task) postponable() bool {
	return t.Waiting() && t.State != Unknown && (t.State != Held || t.Admissible())
}

func (t *Task) postponed(e *Postponed, r Recorded) {
	if !t.postponable() {
		return
	}
	// The bounds on the wait stay.
	t.enter(Scheduled, e.Reason, e.Detail, r)
	t.Due, t.Turn, t.Offered = e.Due, r.Seq, false
	t.heldByLimit() // meanwhile its place is free
	t.unrate()
}
