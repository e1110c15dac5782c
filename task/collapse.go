package task

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"millrace/task/value"
)

// Collapse asks a task that waits for its time to stand for another submission, too ([job.Collapse]).
type Collapse struct {
	// Params are those of the submission, as [job.Collapse.Collects] returned them.
	Params json.RawMessage
	// Of is the id that the submission gave its task; "" if nobody can ask for that again.
	Of ID
}

func (Collapse) isCommand() {}

// Collapsed records that a task stands for another submission, too. Its offers become stale, and another
// follows at its time.
type Collapsed struct {
	// Of is the id that the submission gave its task, which is not made; "" if it gave none.
	Of ID `json:"of,omitzero" redact:"keep"`
	// Params are those of the submission.
	Params json.RawMessage `json:"params,omitzero" redact:"data"`
	// Due is when the task may start now.
	Due time.Time `json:"due,omitzero"`
}

func (Collapsed) isEvent() {}

func collapse(t *Task, c Collapse, now time.Time) (Event, error) {
	switch {
	case c.Of != "" && slices.Contains(t.CollapsedOf, c.Of):
		return nil, nil
	case t.State.Terminal():
		return nil, ErrEnded
	case !t.collapses():
		return nil, fmt.Errorf("%w for further submissions: it is %s", ErrNotWaiting, t.State)
	case t.Spec.Collapse.Full(1+t.Collapsed, len(t.Params)):
		return nil, fmt.Errorf("%w for further submissions: it has all that one task may take", ErrNotWaiting)
	}
	e := Collapsed{Of: c.Of, Params: c.Params, Due: value.Later(t.Due, t.Spec.Collapse.Due(t.SubmittedAt, now))}
	if t.Spec.Collapse.Full(2+t.Collapsed, len(t.Spec.Collapse.Join(t.Params, c.Params))) {
		e.Due = now
	}
	return e, nil
}

// collapses tells whether the task may stand for further submissions: it waits, and never ran.
func (t *Task) collapses() bool {
	return t.Spec != nil && t.Spec.Collapse != nil && t.Epoch == 0 && t.postponable()
}

func (t *Task) collapsed(e *Collapsed, r Recorded) {
	if !t.collapses() {
		return
	}
	t.Params = t.Spec.Collapse.Join(t.Params, e.Params)
	if t.Collapsed++; e.Of != "" {
		t.CollapsedOf = append(slices.Clip(t.CollapsedOf), e.Of)
	}
	t.Turn, t.Offered = r.Seq, false
	t.unrate()
	t.enter(Scheduled, "", "", r)
	t.Due = e.Due
	t.heldByLimit()
	if bound := t.pendingTimeout(); bound > 0 {
		t.StartBy = t.Due.Add(bound)
	}
	t.EndBy = time.Time{}
	t.BoundWhole(t.Due)
}
