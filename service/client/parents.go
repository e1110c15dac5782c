package client

import (
	"context"
	"errors"
	"fmt"

	"millrace/task"
	"millrace/task/birth"
)

// Retry reopens a task that has ended, from its first attempt on. With a parent it reopens those of
// its children that did not finish; with a child its parent, and the steps that were skipped
// because of it. The error wraps [task.ErrUnknown] or [task.ErrRunning], or is a [*events.Taken] if
// another task has taken its unique key, or its parent's.
//
// Retry records one fact: it reopens the task, or the highest of its parents that have ended with it.
// A scheduler reopens the tasks below that one. Retry returns a child of such a parent as it will be
// then.
func (c *Client) Retry(ctx context.Context, id task.ID, reason string) (task.Task, error) {
	for {
		line, err := c.line(ctx, id)
		if err != nil {
			return task.Task{}, err
		}
		t := line[0]
		top, again := birth.Retry(line)
		do, err := c.bound(&line[top].Task, task.Reopen{Reason: reason, Again: again})
		now := t.Task
		if err == nil {
			now, _, err = c.rec.Do(ctx, line[top].Task, do)
		}
		switch {
		case top > 0 && errors.Is(err, task.ErrRunning): // another retry was faster
			continue
		case err != nil && top > 0:
			return t.Task, fmt.Errorf("retry task %s: retry task %s: %w", id, now.ID, err)
		case err != nil:
			return now, fmt.Errorf("retry task %s: %w", id, err)
		case top > 0:
			head := t.Head
			t.Apply(task.Recorded{Seq: now.Seq, Chain: true, At: c.rec.Moment(), Corr: c.rec.Corr, Event: task.Reopened{Reason: reason}})
			t.Head = head
			return t.Task, nil
		}
		return now, c.rec.Settle(ctx, &now)
	}
}

// line is [birth.Line] of a task in the log. The error wraps [task.ErrUnknown] if there is no such
// task.
func (c *Client) line(ctx context.Context, id task.ID) ([]birth.Member, error) {
	load := func(id task.ID) (task.Task, error) { return c.load(ctx, id) }
	t, err := load(id)
	if err != nil {
		return nil, err
	}
	return birth.Line(t, load)
}

// ended tells whether a task has ended, and no retry of one of its parents is about to reopen it.
func (c *Client) ended(ctx context.Context, t *task.Task) (bool, error) {
	if !t.State.Terminal() || t.Parent == "" {
		return t.State.Terminal(), nil
	}
	line, err := c.line(ctx, t.ID)
	if err != nil {
		return false, err
	}
	*t = line[0].Task
	return t.State.Terminal() && !birth.LivesAgain(line), nil
}
