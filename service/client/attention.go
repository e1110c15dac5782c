package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millrace/events"
	"millrace/events/jet/rights"
	"millrace/task"
)

// ErrReadable: a readable message is not a dead letter and cannot be dismissed.
var ErrReadable = errors.New("the message can be read: it is no dead letter")

// ErrNoMessage: the log has no message with this sequence.
var ErrNoMessage = errors.New("the log has no such message")

// UnreadableRequest asks for unreadable messages in the log.
type UnreadableRequest struct {
	// Limit is how many, the latest first: 1 to 1000, default 50.
	Limit int `json:"limit,omitempty"`
	// Before is the Next of the previous page: only messages before this sequence.
	Before uint64 `json:"before,omitempty"`
	// AtLeast makes the answer wait until it reflects this sequence.
	AtLeast uint64 `json:"at_least,omitempty"`
	// At is a moment of the past: a sequence of the log, or a time; "" is now.
	At string `json:"at,omitempty"`
}

// Unreadable is a message in the log that cannot be decoded.
type Unreadable struct {
	// Seq is its sequence in the log.
	Seq uint64 `json:"seq"`
	// Place is its subject, Reason why it is unreadable, Raw its first bytes.
	Place  string `json:"place"`
	Reason string `json:"reason"`
	Raw    []byte `json:"raw"`
}

// UnreadablePage is a page of unreadable messages.
type UnreadablePage struct {
	// Messages are the latest first.
	Messages []Unreadable `json:"messages"`
	// Next is the Before of the next page; 0 if this is the last.
	Next uint64 `json:"next,omitempty"`
	// Seq is the sequence of the log that the page reflects.
	Seq uint64 `json:"seq"`
}

// Unreadable asks the read model for unreadable messages that were not dismissed. The error wraps
// [jet.ErrNoService] if no server answers.
func (c *Client) Unreadable(ctx context.Context, r UnreadableRequest) (UnreadablePage, error) {
	var page UnreadablePage
	err := c.ask(ctx, rights.DeadList, r, &page)
	return page, err
}

// Dismiss removes a dead letter from the list. The task keeps its state, and [Client.Retry] can
// still reopen it. The error wraps [task.ErrUnknown] or [task.ErrNotDead].
func (c *Client) Dismiss(ctx context.Context, id task.ID, reason string) (task.Task, error) {
	return c.Change(ctx, "dismiss", id, task.Dismiss{Reason: reason})
}

// Undismiss puts a dismissed dead letter back on the list. The error wraps [task.ErrUnknown] or
// [task.ErrNotDead].
func (c *Client) Undismiss(ctx context.Context, id task.ID, reason string) (task.Task, error) {
	return c.Change(ctx, "undismiss", id, task.Dismiss{Reason: reason, Undo: true})
}

// DismissMessage removes an unreadable message from the list of dead letters; it stays in the log.
// Dismissing it again is harmless. The error wraps [ErrNoMessage] or [ErrReadable].
func (c *Client) DismissMessage(ctx context.Context, seq uint64, reason string) error {
	r, found, err := c.store.Message(ctx, seq)
	switch {
	case err != nil:
		return err
	case !found:
		return fmt.Errorf("dismiss message %d: %w", seq, ErrNoMessage)
	case r.Unreadable() == "":
		return fmt.Errorf("dismiss message %d: %w", seq, ErrReadable)
	}
	type dismissal struct {
		events.Record
		found bool
	}
	chain := events.Chain[dismissal, *events.Fact]{
		Read: func(ctx context.Context, _ *events.Fact) (dismissal, uint64, bool, error) {
			r, found, err := c.Dismissal(ctx, seq)
			return dismissal{r, found}, r.Seq, false, err
		},
		Write: c.store.Append,
	}
	// If it is dismissed already there is nothing to write; and what lies there may be unreadable
	// as well.
	_, err = chain.DecideFrom(ctx, dismissal{}, 0, func(is dismissal) (*events.Fact, bool, error) {
		return c.rec.MessageFact(seq, task.MessageDismissed{Reason: reason}), !is.found, nil
	})
	return err
}

// Dismissal returns the fact that dismissed a message; the second result is false if there is none.
func (c *Client) Dismissal(ctx context.Context, seq uint64) (events.Record, bool, error) {
	if c.role != "" {
		return events.Record{}, false, nil // the list of the service leaves out what was dismissed
	}
	return c.store.Dismissal(ctx, seq)
}

// Kinds of [Matter], in the order in which lists show them.
const (
	MatterApproval  = "approval"
	MatterOverdue   = "overdue"
	MatterNode      = "node"
	MatterBreaker   = "breaker"
	MatterUnserved  = "unserved"
	MatterPaused    = "paused"
	MatterSchedule  = "schedule"
	MatterDead      = "dead"
	MatterUnread    = "unreadable"
	MatterHeldFront = "horizon"
	MatterNotice    = "notice"
	MatterTrigger   = "trigger"
)

// Matter is something that goes on only when a person acts.
type Matter struct {
	// Kind is "approval", "overdue", "node", "trigger" of a job (it makes no tasks), "breaker", "unserved" or
	// "paused" of a queue, "schedule", "notice" (it cannot be sent), "dead", "unreadable" or "horizon".
	Kind string `json:"kind"`
	// ID names the task, queue, node, job or schedule that it is about; "" if it is about many.
	ID string `json:"id,omitempty"`
	// Who must act, and What, in words; a command in backquotes does it.
	Who  string `json:"who"`
	What string `json:"what"`
	// Since is when it began; zero if unknown.
	Since time.Time `json:"since,omitzero"`
	// Tasks is how many tasks it keeps waiting, or are at stake.
	Tasks int `json:"tasks,omitempty"`
	// Of is what the task does, if it is about one, or the job of the schedule.
	Of string `json:"of,omitempty"`
}

// FailureGroup is tasks that have failed for one cause.
type FailureGroup struct {
	// Job is the job of all of them, or else what they do. Planned tells that a schedule made the last one.
	Job     string `json:"job"`
	Planned bool   `json:"planned,omitempty"`
	// Reason is the code of their end, and Cause the message of the last one.
	Reason string `json:"reason,omitempty"`
	Cause  string `json:"cause,omitempty"`
	// Tasks is how many they are. Last failed last, at At.
	Tasks int       `json:"tasks"`
	Last  task.ID   `json:"last"`
	At    time.Time `json:"at"`
}

// Attention is what needs a person.
type Attention struct {
	// Matters are by kind, and of a kind the longest waiting first. More is how many there are besides.
	Matters []Matter `json:"matters"`
	More    int      `json:"more,omitempty"`
	// Failures are the tasks without a parent that failed within a day: those of schedules first, then
	// by the last failure. Partly tells that there were more failures than were looked at.
	Failures []FailureGroup `json:"failures"`
	Partly   bool           `json:"partly,omitempty"`
}

// All is how many matters there are.
func (a *Attention) All() int { return len(a.Matters) + a.More }

// Attention asks a server what needs a person at a moment: a sequence of the log or a time, "" for now,
// which then reflects at least a sequence.
// The error wraps [jet.ErrNoService] if none answers.
func (c *Client) Attention(ctx context.Context, at string, atLeast uint64) (a Attention, err error) {
	return a, c.ask(ctx, rights.Attention, map[string]any{"at": at, "at_least": atLeast}, &a)
}
