package task

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/task/value"
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

// Throttled records that an offered task waits until the rate of its queue admits it. The offer
// becomes stale.
type Throttled struct {
	// Node is the node that got the offer.
	Node string `json:"node,omitzero" redact:"keep"`
	// Limit names the rate, as in [Grant].
	Limit string `json:"limit,omitzero" redact:"counter"`
}

func (Throttled) isEvent() {}

// RateQueue is the queue whose rate and window apply to the task; "" while it waits for a certain
// node, because nodes' own routes belong to no queue.
func (w *Work) RateQueue() string {
	if _, own := w.Route.Node(); own {
		return ""
	}
	if queue, _ := w.Asks(); queue == "" {
		return "" // the route of named nodes belongs to no queue either
	}
	return w.QueueName()
}

// Limited tells whether limits manage the task: its own limits, or the rate of its queue, which
// must admit it or has admitted it and waits for its start.
func (t *Task) Limited() bool {
	return t.Throttled || t.Spec.Limited() || t.Rated > 0 && t.State == Pending
}

func (t *Task) throttled(r Recorded) {
	if !t.Waiting() || t.State == Unknown {
		return
	}
	// The bounds on the wait stay.
	t.enter(Held, HoldLimit, "the rate of its queue has to admit it", r)
	t.Holds, t.Throttled = onlyLimit, true
	t.Turn, t.Offered = r.Seq, false
}

// unrate clears the admission by a queue's rate: another turn or another queue needs a new one.
func (t *Task) unrate() { t.Rated, t.Throttled = 0, false }

// Collapse asks a task that waits for its time to stand for another submission, too ([job.Collapse]).
type Collapse struct {
	// Params are those of the submission, as [job.Collapse.Collects] returned them.
	Params json.RawMessage
	// Of is the id that the submission gave its task; "" if nobody can ask for that again.
	Of ID
}

func (Collapse) isCommand() {}

// Collapsed records that a task stands for another submission, too. An offer or admission of the turn before
// becomes stale.
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
	case !now.Before(t.Takes()) || t.Spec.Collapse.Full(t.Collapsed, t.Collected):
		return nil, fmt.Errorf("%w for further submissions: it is %s, and due at %s", ErrNotWaiting, t.State, t.Due.UTC().Format(time.RFC3339Nano))
	}
	e := Collapsed{Of: c.Of, Params: c.Params, Due: value.Later(t.Due, t.Spec.Collapse.Due(t.SubmittedAt, now))}
	if t.Spec.Collapse.Full(t.Collapsed+1, t.Collected+len(c.Params)) {
		e.Due = now
	}
	return e, nil
}

// Takes is until when the task takes further submissions; zero for a task that takes none.
func (t *Task) Takes() time.Time {
	if !t.collapses() {
		return time.Time{}
	}
	return t.Due
}

// collapses tells whether the task may move for another submission: it waits, and never ran.
func (t *Task) collapses() bool {
	return t.Spec != nil && t.Spec.Collapse != nil && t.Epoch == 0 && t.postponable()
}

func (t *Task) collapsed(e *Collapsed, r Recorded) {
	if !t.collapses() {
		return
	}
	t.Params = t.Spec.Collapse.Join(t.Params, e.Params)
	t.Collected += len(e.Params)
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
