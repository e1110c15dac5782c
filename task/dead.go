package task

import (
	"errors"
	"fmt"
	"time"

	"millrace/task/job"
	"millrace/task/value"
)

// ErrNotDead: the task is not a dead letter, so it cannot be dismissed as one.
var ErrNotDead = errors.New("the task is no dead letter")

// Letter is a kind of dead letter.
type Letter string

// The kinds of dead letters that are tasks.
const (
	// LetterGivenUp: Millrace gave the task up ([Abnormal]).
	LetterGivenUp Letter = "given-up"
	// LetterUsedUp: the task failed as often as its retries allow, or as long ([Error]). A task that
	// failed without retries, or in a way that no retry is for, is no dead letter.
	LetterUsedUp Letter = "used-up"
)

// Letter is the kind of dead letter that the task is, dismissed or not; "" if it is none. A task's
// state tells its kind: [Letter.State].
func (t *Task) Letter() Letter {
	switch {
	case t.State == Abnormal && t.Reason != value.Rejected: // that is what somebody wants
		return LetterGivenUp
	case t.State == Error && t.usedUp():
		return LetterUsedUp
	}
	return ""
}

// State is the state of all dead letters of the kind.
func (l Letter) State() State {
	return map[Letter]State{LetterGivenUp: Abnormal, LetterUsedUp: Error}[l]
}

// Letters are the kinds of dead letters that are tasks.
func Letters() []Letter { return []Letter{LetterGivenUp, LetterUsedUp} }

// usedUp tells whether a failed task had retries, and none is left: by their number, or because the
// next one would come after their budget or the task's own time.
func (t *Task) usedUp() bool {
	if t.Spec == nil || t.Spec.Retry.Max == 0 || t.Failures == 0 {
		return false
	}
	retry := t.Spec.Retry
	due, _, again := retry.Plan(job.Failure{Class: t.Reason, Exit: t.Exit, Failures: t.Failures, Begun: t.Begun, At: t.EndedAt})
	return t.Failures > retry.Max || retry.Covers(t.Reason, t.Exit) && (!again || t.TooLong(due))
}

// Dead tells whether the task is a dead letter ([Task.Letter]) that no operator has dismissed.
func (t *Task) Dead() bool { return t.Letter() != "" && t.Dismissed == nil }

// Dismissal records the person or program that took a dead letter off the list, when and why.
type Dismissal struct {
	// At is when it was taken off, and By who did that. Reason is what that person or program said.
	At     time.Time `json:"at"`
	By     string    `json:"by,omitzero" redact:"actor"`
	Reason string    `json:"reason,omitzero" redact:"hide"`
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
	case t.Letter() == "":
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
		return GiveUp{Reason: value.Poison, Detail: fmt.Sprintf("offer %d was handed out again and again, and nobody could start the task", offer.Seq)}, true
	}
	return nil, false
}
