package task

import (
	"errors"
	"fmt"
	"time"

	"millrace/task/reason"
)

// ErrNotDead: the task is no dead letter, so it cannot be dismissed as one.
var ErrNotDead = errors.New("the task is no dead letter")

// Dead tells whether the task is a dead letter: its surroundings ended it, and
// nobody has dismissed it since.
func (t *Task) Dead() bool { return t.State == Abnormal && t.Dismissed == nil }

// Dismissal says who took a dead letter off the list, when and why.
type Dismissal struct {
	At     time.Time `json:"at"`
	By     string    `json:"by,omitzero"`
	Reason string    `json:"reason,omitzero"`
}

// Dismiss takes a dead letter off the list.
type Dismiss struct{ Reason string }

// Dismissed says that somebody has seen a dead letter and wants it off the list.
// The task stays as it ended, and can be reopened like any other.
type Dismissed struct {
	Reason string `json:"reason,omitzero"`
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

// MessageEvent is a fact about a message of the log that nobody can read. The
// set is closed.
type MessageEvent interface{ isMessageEvent() }

// MessageDismissed says that somebody has seen such a message and wants it off
// the list of dead letters. The message stays in the log as it is.
type MessageDismissed struct {
	Reason string `json:"reason,omitzero"`
}

func (MessageDismissed) isMessageEvent() {}

// Undelivered is the command that follows when an offer of a task is given up
// because it was handed out too often. The second result is false if nothing
// does: the task has moved on, or the message is no offer. A [Lose] needs an account of the lease,
// for how often an offer was handed out says nothing about the attempt that runs under it.
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
