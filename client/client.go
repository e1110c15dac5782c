package client

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/user"
	"time"

	"github.com/nats-io/nats.go"

	"millrace/desk"
	"millrace/events"
	"millrace/jet"
	"millrace/task"
	"millrace/task/job"
	"millrace/view"
)

// Options say how to reach the NATS server that holds Millrace, in the words of the nats command
// line. See [jet.ConnectConfig] for each field, and [FindServer] for what counts if they are empty.
type Options = jet.ConnectConfig

// Client speaks to Millrace. It is safe for concurrent use.
type Client struct {
	store *jet.Store
	rec   *events.Recorder
	own   *nats.Conn // closed by Close; nil if the store is the caller's
	desk  *desk.Desk
}

// Connect connects to the NATS server that o and the environment name, or to the `millrace dev` that
// this user runs here ([FindServer] has the whole rule), and opens the log in it. The error says what
// could not be reached; it wraps [ErrOptions], [jet.ErrNoMillrace] if no log is there, or [link.ErrElecting] if
// the servers of a cluster had not elected a leader within the time of [link.Patience].
func Connect(ctx context.Context, o Options) (*Client, error) {
	t, err := FindServer(o)
	if err != nil {
		return nil, err
	}
	return t.Connect(ctx)
}

// New returns a client of a store that is open already and stays the caller's.
// Actor is who it acts for; by default the user and host of this process.
func New(store *jet.Store, actor string) *Client {
	if actor == "" {
		actor = whoami()
	}
	c := &Client{store: store, rec: &events.Recorder{Log: store, Actor: actor, Hints: store, Now: store.Now, NewID: events.NewID}}
	c.desk = &desk.Desk{Rec: c.rec, Store: c.DeskStore()}
	return c
}

// with returns a client on the same connection that writes as rec does.
func (c *Client) with(rec events.Recorder) *Client {
	other := &Client{store: c.store, rec: &rec}
	other.desk = c.desk.For(other.DeskStore(), &rec)
	return other
}

// As returns a client on the same connection that acts for somebody else.
func (c *Client) As(actor string) *Client {
	rec := *c.rec
	rec.Actor = actor
	return c.with(rec)
}

// Store is what the client works on; a worker takes it.
func (c *Client) Store() *jet.Store { return c.store }

// Now is the time by which the client goes, and everything that it writes: the log's, whatever
// the clock of this machine says. See [jet.Store.Now].
func (c *Client) Now() time.Time { return c.store.Now() }

// Close ends what Connect began.
func (c *Client) Close() {
	if c.own == nil {
		return
	}
	c.store.Close()
	c.own.Close()
}

func whoami() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return name + "@" + host
}

// InBatch returns a client on the same connection whose facts about tasks name a
// bulk command as their first cause, so that [ListRequest.Batch] finds what it touched.
func (c *Client) InBatch(id string) *Client {
	rec := *c.rec
	rec.Corr = id
	return c.with(rec)
}

// Batch is the id that [Client.InBatch] was given.
func (c *Client) Batch() string { return c.rec.Corr }

// Task reads a task from the log. The error wraps [task.ErrUnknown] if there is none.
func (c *Client) Task(ctx context.Context, id task.ID) (task.Task, error) {
	return view.GetTask(ctx, c.View(), id)
}

// History reads all facts of a task in order. The error wraps [task.ErrUnknown]
// if there is no such task.
func (c *Client) History(ctx context.Context, id task.ID) ([]events.Record, error) {
	return view.All(ctx, c.View(), view.Task(id))
}

// Cancel asks for a task's end. A task that waits is cancelled when Cancel
// returns; one that runs is cancelling, and cancelled when its end was seen.
// The error wraps [task.ErrUnknown] or [task.ErrEnded].
func (c *Client) Cancel(ctx context.Context, id task.ID, reason string) (task.Task, error) {
	t, err := c.rec.Load(ctx, id)
	if err != nil {
		return t, err
	}
	return c.CancelKnown(ctx, t, reason)
}

// CancelKnown is [Client.Cancel] of a task as a list has it, which saves reading it: what
// has changed since is read, and decided anew, only if the log says that something has.
func (c *Client) CancelKnown(ctx context.Context, was task.Task, reason string) (task.Task, error) {
	t, event, err := c.rec.Do(ctx, was, task.Cancel{Reason: reason})
	if err != nil {
		return t, fmt.Errorf("cancel task %s: %w", t.ID, err)
	}
	if _, stops := event.(task.CancelRequested); stops && t.Epoch == 0 {
		return t, c.cancelChildren(ctx, &t)
	}
	return t, nil
}

// Retry gives a task that has ended another life, from its first attempt on. With a parent those
// of its children get one that did not finish, and with a child its parent, and the steps that were skipped
// for its sake. The error wraps [task.ErrUnknown] or [task.ErrRunning], or a [*events.Taken] if its unique key,
// or that of its parent, has been taken by another task.
func (c *Client) Retry(ctx context.Context, id task.ID, reason string) (task.Task, error) {
	t, err := c.rec.Load(ctx, id)
	if err != nil {
		return t, err
	}
	var parents []task.Task
	if t.State.Terminal() { // else it is refused
		if parents, err = c.parents(ctx, &t); err == nil {
			err = c.reopenParents(ctx, parents)
		}
		if err != nil {
			return t, fmt.Errorf("retry task %s: %w", id, err)
		}
	}
	if t, err = c.reopen(ctx, t, reason); err != nil {
		return t, err
	}
	return t, c.follow(ctx, t.ID, parents, reason)
}

// Signal gives the signal that a task waits for, with data (JSON, or nil), which it is
// told. The error wraps [task.ErrUnknown], [task.ErrEnded] or [task.ErrNotHeld].
func (c *Client) Signal(ctx context.Context, id task.ID, data json.RawMessage, reason string) (task.Task, error) {
	t, err := c.rec.Load(ctx, id)
	if err != nil {
		return t, err
	}
	var signal *job.Signal
	if t.Spec != nil {
		signal = t.Spec.Signal
	}
	inputs, err := signal.Inputs(c.rec.Actor, data)
	if err != nil {
		return t, fmt.Errorf("signal task %s: %w", id, Wrong(err))
	}
	t, _, err = c.rec.Do(ctx, t, task.Unhold{Hold: task.HoldSignal, Reason: reason, Inputs: inputs})
	if err != nil {
		return t, fmt.Errorf("signal task %s: %w", id, err)
	}
	return t, c.rec.Settle(ctx, &t)
}

// Release moves a task that waits for certain nodes to its shared queue, where
// any node that serves it can take it. The error wraps [task.ErrUnknown],
// [task.ErrEnded], [task.ErrNotWaiting] or [task.ErrShared].
func (c *Client) Release(ctx context.Context, id task.ID, reason string) (task.Task, error) {
	t, err := c.rec.Load(ctx, id)
	if err != nil {
		return t, err
	}
	t, _, err = c.rec.Do(ctx, t, task.Unbind{Reason: reason})
	if err != nil {
		return t, fmt.Errorf("release task %s: %w", id, err)
	}
	return t, c.rec.Settle(ctx, &t)
}
