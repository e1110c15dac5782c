package client

import (
	"context"
	"errors"
	"fmt"

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
