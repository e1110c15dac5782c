package task

import (
	"encoding/json"
	"time"

	"millrace/task/placement"
)

// Carried is all that the facts of a task say, up to the message at its Head. It is written when the
// log is about to forget some of them. It lies beside the chain, where only servers may write, and
// counts once a [Kept] on the chain follows directly behind it.
type Carried struct {
	// Fold is the sum of the facts.
	Fold Task      `json:"fold"`
	Born Beginning `json:"born"`
	// Offers is how many offers the present turn has had, and OfferedAt when the log stored the last.
	Offers    int       `json:"offers,omitzero"`
	OfferedAt time.Time `json:"offered_at,omitzero"`
}

// Beginning is what else must be known of the birth of a carried task: its place in the log, and its
// values in fields that later facts may have changed in the task.
type Beginning struct {
	// Seq is its sequence. Chain says that it lay on the task's chain.
	Seq   uint64 `json:"seq,omitzero"`
	Chain bool   `json:"chain,omitzero"`

	Due    time.Time        `json:"due,omitzero"`
	Window *Shut            `json:"window,omitzero"`
	Route  placement.Route  `json:"route,omitzero" redact:"keep"`
	Asked  *placement.Asked `json:"asked,omitzero"`
	Holds  []string         `json:"holds,omitzero" redact:"word"`
	Inputs json.RawMessage  `json:"inputs,omitzero" redact:"drop"`
	// StartBy and EndBy are those of [Work].
	StartBy time.Time `json:"start_by,omitzero"`
	EndBy   time.Time `json:"end_by,omitzero"`
}

// Kept makes the [Carried] fact directly before it in the log the task. It is written by
// compare-and-set on the chain in one step with that one, so both say the same as all facts before
// them. A carried fact without it changes nothing.
type Kept struct {
	// Head is the sequence of the chain's message before it, up to which the other one says all.
	Head uint64 `json:"head,omitzero"`
}

func (Carried) isEvent() {}
func (Kept) isEvent()    {}

// Carriage is a [Carried] fact whose [Kept] may be the next message.
type Carriage struct {
	Seq uint64
	// After is the last message before it that the fold has seen.
	After uint64
	Carried
}

// Birth is the birth of the task, as it was submitted.
func (c *Carried) Birth() Submitted {
	e := Submitted{Work: c.Fold.Work, Due: c.Born.Due, RetryOf: c.Fold.RetryOf, Window: c.Born.Window}
	e.Route, e.Asked, e.Holds, e.Inputs, e.StartBy, e.EndBy =
		c.Born.Route, c.Born.Asked, c.Born.Holds, c.Born.Inputs, c.Born.StartBy, c.Born.EndBy
	return e
}

// kept makes the waiting fact the task, if e at a sequence belongs to it. A fold that knows its birth,
// and of an offer that has come since the task was read for that fact, knows more.
func (t *Task) kept(e Kept, seq uint64) {
	w, head := t.Carry, t.Head
	t.Carry, t.Rivals, t.Head = nil, nil, seq
	switch {
	case w == nil || w.Seq+1 != seq || w.Fold.Head != e.Head || w.Fold.ID != t.ID:
	case w.After > w.Fold.Seq && head == w.Fold.Head && !t.SubmittedAt.IsZero() && t.SubmittedAt.Equal(w.Fold.SubmittedAt):
	default:
		*t = w.Fold
		t.Head, t.Seq = seq, seq
	}
}
