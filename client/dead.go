package client

import (
	"context"
	"errors"
	"fmt"

	"millrace/events"
	"millrace/jet/roles"
	"millrace/task"
)

// ErrReadable refuses to dismiss a message that can be read.
var ErrReadable = errors.New("the message can be read: it is no dead letter")

// ErrNoMessage: the log has no message with this sequence.
var ErrNoMessage = errors.New("the log has no such message")

// UnreadableRequest asks for messages in the log that nobody can read.
type UnreadableRequest struct {
	// Limit is how many, the latest first: 1 to 1000, default 50.
	Limit int `json:"limit,omitempty"`
	// Before chooses those before a sequence: the Next of the page before.
	Before uint64 `json:"before,omitempty"`
	// AtLeast makes the answer wait until it reflects this sequence.
	AtLeast uint64 `json:"at_least,omitempty"`
}

// Unreadable is a message in the log that nobody can read.
type Unreadable struct {
	Seq uint64 `json:"seq"`
	// Place is its subject, Reason why it cannot be read, Raw its beginning.
	Place  string `json:"place"`
	Reason string `json:"reason"`
	Raw    []byte `json:"raw"`
}

// UnreadablePage is some of them.
type UnreadablePage struct {
	Messages []Unreadable `json:"messages"`
	// Next is what the next page comes before; 0 if this is the last.
	Next uint64 `json:"next,omitempty"`
	Seq  uint64 `json:"seq"`
}

// Unreadable asks the read model for messages that nobody can read and that
// nobody has dismissed. The error wraps [jet.ErrNoService] if no server answers.
func (c *Client) Unreadable(ctx context.Context, r UnreadableRequest) (UnreadablePage, error) {
	var page UnreadablePage
	err := c.store.Ask(ctx, roles.DeadList, r, &page)
	return page, err
}

// Dismiss takes a dead letter off the list. It stays as it ended, and [Client.Retry]
// gives it another life as before. The error wraps [task.ErrUnknown] or [task.ErrNotDead].
func (c *Client) Dismiss(ctx context.Context, id task.ID, reason string) (task.Task, error) {
	t, err := c.rec.Load(ctx, id)
	if err != nil {
		return t, err
	}
	t, _, err = c.rec.Do(ctx, t, task.Dismiss{Reason: reason})
	if err != nil {
		return t, fmt.Errorf("dismiss task %s: %w", id, err)
	}
	return t, nil
}

// DismissMessage takes a message that nobody can read off the list of dead
// letters; it stays in the log. If somebody has done so before, that is enough.
// The error wraps [ErrNoMessage] or [ErrReadable].
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
	// Where it is dismissed already nothing has to be written, and what lies there may be no fact either.
	_, err = chain.DecideFrom(ctx, dismissal{}, 0, func(is dismissal) (*events.Fact, bool, error) {
		return c.rec.MessageFact(seq, task.MessageDismissed{Reason: reason}), !is.found, nil
	})
	return err
}

// Dismissal is what the log says of the dismissal of a message; the second
// result is false if nobody has dismissed it.
func (c *Client) Dismissal(ctx context.Context, seq uint64) (events.Record, bool, error) {
	return c.store.Dismissal(ctx, seq)
}
