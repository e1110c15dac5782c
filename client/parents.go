package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"millrace/task"
	"millrace/task/family"
	"millrace/task/reason"
	"millrace/view"
)

// atOnce is how many children are reopened concurrently.
const atOnce = 16

// children returns a parent's children, and how they stand.
func (c *Client) children(ctx context.Context, t *task.Task) ([]task.Task, map[task.ID]task.End, error) {
	tasks, err := view.Children(ctx, c.View(), t)
	ends := make(map[task.ID]task.End, len(tasks))
	for i := range tasks {
		ends[tasks[i].ID] = task.EndOf(&tasks[i])
	}
	return tasks, ends, err
}

// eachChild reads these tasks, several concurrently, and calls do with each existing one.
func (c *Client) eachChild(ctx context.Context, ids []task.ID, do func(task.Task) error) error {
	var g errgroup.Group
	g.SetLimit(atOnce)
	for _, id := range ids {
		g.Go(func() error {
			child, err := c.rec.Load(ctx, id)
			if errors.Is(err, task.ErrUnknown) {
				return nil
			}
			if err != nil {
				return err
			}
			return do(child)
		})
	}
	return g.Wait()
}

// retryChildren reopens the children of a parent that did not finish.
func (c *Client) retryChildren(ctx context.Context, t *task.Task, code string) error {
	tasks, ends, err := c.children(ctx, t)
	if err != nil {
		return err
	}
	var again []task.ID
	for _, child := range tasks {
		if child.State.Terminal() && child.State != task.Finished && child.Reason != reason.Skipped {
			again = append(again, child.ID)
		}
	}
	for _, later := range family.Rerun(t, ends) {
		again = slices.DeleteFunc(again, func(id task.ID) bool { return id == family.ChildID(t.ID, later) })
	}
	if err := c.eachChild(ctx, again, func(child task.Task) error {
		_, err := c.reopen(ctx, child, code)
		return err
	}); err != nil {
		return err
	}
	for _, id := range again {
		ends[id] = task.End{State: task.Pending}
	}
	return c.retryDependents(ctx, t, ends, code)
}

// retryDependents reopens the steps of a task that depend on reopened ones: skipped steps, and
// handlers. ends says which exist.
func (c *Client) retryDependents(ctx context.Context, t *task.Task, ends map[task.ID]task.End, reason string) error {
	for _, name := range slices.Concat(family.Awaken(t, ends), family.Rerun(t, ends)) {
		child, err := c.rec.Load(ctx, family.ChildID(t.ID, name))
		if err == nil && child.State.Terminal() {
			_, err = c.reopen(ctx, child, reason)
		}
		if err != nil {
			return fmt.Errorf("step %s: %w", name, err)
		}
	}
	return nil
}

// reopen reopens a task, and then its children: it must get its unique key again before any of them
// starts. A scheduler leaves it time for that ([family.Expects]). A task that is open already is
// no error.
func (c *Client) reopen(ctx context.Context, t task.Task, reason string) (task.Task, error) {
	now, _, err := c.rec.Do(ctx, t, task.Reopen{Reason: reason})
	// A scheduler was faster.
	if errors.Is(err, task.ErrRunning) && t.State.Terminal() && (t.Parent != "" || t.Spec.Parental()) {
		now, err = c.rec.Load(ctx, t.ID)
	}
	if err != nil {
		return now, fmt.Errorf("retry task %s: %w", t.ID, err)
	}
	if t.Spec.Parental() && t.State.Terminal() {
		if err := c.retryChildren(ctx, &t, reason); err != nil {
			return now, fmt.Errorf("retry the children of task %s: %w", t.ID, err)
		}
		if now, err = c.keepAlive(ctx, t.ID); err != nil {
			return now, fmt.Errorf("retry task %s: %w", t.ID, err)
		}
	}
	return now, c.rec.Settle(ctx, &now)
}

// keepAlive reopens a parent once more if a scheduler has ended it before its children were
// reopened: the scheduler waits for them only as long as a submitter usually takes.
func (c *Client) keepAlive(ctx context.Context, id task.ID) (task.Task, error) {
	t, err := c.rec.Load(ctx, id)
	if err != nil || !t.State.Terminal() {
		return t, err
	}
	_, ends, err := c.children(ctx, &t)
	if err != nil {
		return t, err
	}
	again, dead := family.Revive(&t, ends)
	if !dead {
		return t, nil // they have all ended meanwhile
	}
	now, _, err := c.rec.Do(ctx, t, again)
	if errors.Is(err, task.ErrRunning) { // a scheduler has noticed
		now, err = c.rec.Load(ctx, id)
	}
	return now, err
}

// parents returns a task's ancestors that could be reopened with it, the nearest first.
func (c *Client) parents(ctx context.Context, t *task.Task) ([]task.Task, error) {
	var parents []task.Task
	for child := *t; child.Parent != ""; {
		parent, err := c.rec.Load(ctx, child.Parent)
		if errors.Is(err, task.ErrUnknown) || err == nil && !isParent(&parent, child.ID) {
			break
		}
		if err != nil {
			return nil, err
		}
		parents = append(parents, parent)
		child = parent
	}
	return parents, nil
}

// isParent tells whether a task was expanded into one with this id: a submission may name any task
// as its parent.
func isParent(t *task.Task, child task.ID) bool {
	return slices.Contains(slices.Collect(maps.Values(family.ChildIDs(t))), child)
}

// reopenParents reopens the ended ones among a task's parents, the highest first. If another task
// has taken the unique key of one of them, nothing below that one is reopened: the error is a
// [*events.Taken].
func (c *Client) reopenParents(ctx context.Context, parents []task.Task) error {
	for i := range parents { // so that it is rarely noticed too late
		if err := c.rec.Free(ctx, &parents[i]); err != nil {
			return err
		}
	}
	for _, t := range slices.Backward(parents) {
		if !t.State.Terminal() {
			continue
		}
		if _, _, err := c.rec.Do(ctx, t, task.Reopen{Reason: "a child of it has another life"}); err != nil && !errors.Is(err, task.ErrRunning) {
			return fmt.Errorf("retry task %s: %w", t.ID, err)
		}
	}
	return nil
}

// follow reopens the steps beside a reopened task that depend on it.
func (c *Client) follow(ctx context.Context, child task.ID, parents []task.Task, reason string) error {
	for i := range parents {
		t := &parents[i]
		if _, own := family.OwnChildren(t); own {
			_, ends, err := c.children(ctx, t)
			if err != nil {
				return err
			}
			ends[child] = task.End{State: task.Pending} // whatever its state is by now
			if err := c.retryDependents(ctx, t, ends, reason); err != nil {
				return err
			}
		}
		if !t.State.Terminal() {
			return nil
		}
		child = t.ID
	}
	return nil
}
