package client

import (
	"context"

	"millrace/task"
)

// Branch is a task with those into which it was expanded.
type Branch struct {
	// Name is what its parent calls it; "" for the root.
	Name string
	// Task has no more than an id if nobody has made it yet.
	Task     task.Task
	Branches []Branch
}

// Tree reads a task from the log, its children, theirs and so on; children are in the order in which
// their parent has them. The error wraps [task.ErrUnknown] if there is no such task.
func (c *Client) Tree(ctx context.Context, id task.ID) (Branch, error) {
	t, err := c.rec.Load(ctx, id)
	if err != nil {
		return Branch{}, err
	}
	return c.branch(ctx, "", t)
}

func (c *Client) branch(ctx context.Context, name string, t task.Task) (Branch, error) {
	b := Branch{Name: name, Task: t}
	if t.Children == nil {
		return b, nil
	}
	tasks, err := c.ChildTasks(ctx, &t)
	if err != nil {
		return b, err
	}
	byID := make(map[task.ID]task.Task, len(tasks))
	for _, child := range tasks {
		byID[child.ID] = child
	}
	for _, name := range t.Children.Names {
		id := task.ChildID(t.ID, name)
		child, made := byID[id]
		if !made {
			child = task.Task{ID: id}
		}
		below, err := c.branch(ctx, name, child)
		if err != nil {
			return b, err
		}
		b.Branches = append(b.Branches, below)
	}
	return b, nil
}
