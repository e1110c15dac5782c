package client

import (
	"context"
	"errors"
	"fmt"

	"millrace/desk"
	"millrace/events"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/family"
)

// Spawn makes a child of a running task, for the worker that runs that task: s has the id and the
// parent that [family.ChildID] gives it. Asking for the same child again makes no second one. If a
// child was stopped with its parent, and the reopened parent asks for it, it is reopened.
//
// Beside the errors of [Client.Submit] the error wraps [task.ErrUnknown] or [task.ErrEnded] if the
// parent does not exist or gets no more children ([family.Spawns]), and [task.ErrOther] if the
// child exists and does something else, which is harmless if it is this parent's own.
func (c *Client) Spawn(ctx context.Context, s birth.Submission) error {
	if s.Parent == "" || !s.ID.Derived() || family.ChildID(s.Parent, "")[:10] != s.ID[:10] {
		return fmt.Errorf("spawn: %w: id %s is not that of a child of task %q", ErrInvalid, s.ID, s.Parent)
	}
	parent, err := c.rec.Load(ctx, s.Parent)
	if err == nil {
		err = family.Spawns(&parent)
	}
	if err != nil {
		return fmt.Errorf("spawn: %w", err)
	}
	n, err := c.newborn(ctx, s)
	if err != nil {
		return err
	}
	var there *events.Exists
	if err := c.rec.Unborn(ctx, n.ID); errors.As(err, &there) {
		return c.respawn(ctx, s, &n, there)
	} else if err != nil {
		return err
	}
	receipt, err := c.bear(ctx, s, &n)
	if err == nil && receipt.Existing {
		err = fmt.Errorf("spawn: %w", &events.Taken{Holder: receipt.ID})
	}
	return err
}

func (c *Client) respawn(ctx context.Context, s birth.Submission, n *desk.Newborn, there *events.Exists) error {
	child, err := c.rec.Load(ctx, n.ID)
	switch {
	case err != nil:
		return err
	case child.Parent != s.Parent:
		return fmt.Errorf("spawn: task %s has the id of this child, and task %s did not make it", n.ID, s.Parent)
	case family.StoppedWithParent(&child):
		if child, _, err = c.rec.Do(ctx, child, task.Reopen{Reason: "its parent has another life and asks for it again"}); err == nil {
			err = c.rec.Settle(ctx, &child)
		}
		if err != nil && !errors.Is(err, task.ErrRunning) {
			return err
		}
	}
	return c.desk.SameBirth(there, n.Birth)
}
