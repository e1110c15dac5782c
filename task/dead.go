package task

import (
	"errors"
	"fmt"
	"time"

	"millrace/task/reason"
)

// ErrNotDead: the task is not a dead letter, so it cannot be dismissed as one.
var ErrNotDead = errors.New("the task is no dead letter")

// Dead tells whether the task is a dead letter: it ended abnormal, and no operator has dismissed it
// since.
func (t *Task) Dead() bool { return t.State == Abnormal && t.Dismissed == nil }

// Dismissal records the person or program that took a dead letter off the list, when and why.
type Dismissal struct {
	// At is when it was taken off, and By who did that. Reason is what that person or program said.
	At     time.Time `json:"at"`
	By     string    `json:"by,omitzero"`
	Reason string    `json:"reason,omitzero"`
}

// Dismiss takes a dead letter off the list.
type Dismiss struct{ Reason string }

// Dismissed records that an operator took a dead letter off the list. The task keeps its end and
// can be reopened like any other.
type Dismissed struct {
	Reason string `json:"reason,omitzero" redact:"hide"`
}

func (Dismiss) isCommand() {}
func (Dismissed) isEvent() {}

func dismiss(t *Task, c Dismiss) (Event, error) {
	switch {
	case t.State != Abnormal:
		return nil, fmt.Errorf("%w: it is %s", ErrNotDead, t.State)
	case t.Dismissed != nil:
		return nil, nil
	}
	return Dismissed(c), nil
}

// MessageEvent is a fact about an unreadable message of the log. The set is closed.
type MessageEvent interface{ isMessageEvent() }

// MessageDismissed records that an operator took such a message off the list of dead letters. The
// message stays in the log as it is.
type MessageDismissed struct {
	Reason string `json:"reason,omitzero" redact:"hide"`
}

func (MessageDismissed) isMessageEvent() {}

// Undelivered returns the command that follows when the server gives up an offer after too many
// deliveries. The second result is false if no command follows: the task has moved on, or the
// message is not an offer. A [Lose] needs an account of the lease, because the number of deliveries
// says nothing about the attempt that runs under the offer.
func Undelivered(t Task, offer Recorded) (Command, bool) {
	var after uint64
	switch e := offer.Event.(type) {
	case Submitted:
	case Queued:
		after = e.After
	default:
		return nil, false
	}
	switch {
	case t.Live() && t.Offer == offer.Seq:
		return Lose{Epoch: t.Epoch, Reason: "its lease ran out, and the server gave the offer up"}, true
	case t.State == Pending && t.Offered && t.Turn == after:
		return GiveUp{Reason: reason.Poison, Detail: fmt.Sprintf("offer %d was handed out again and again, and nobody could start the task", offer.Seq)}, true
	}
	return nil, false
}
