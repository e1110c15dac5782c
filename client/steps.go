package client

import (
	"context"

	"millrace/task"
)

// pinSteps pins the files of the steps of what is submitted, in copies of it: s gets one itself, and
// the job is returned, as it was if it has none.
func (c *Client) pinSteps(ctx context.Context, s *task.Submission, job *task.Job) (*task.Job, error) {
	switch {
	case job != nil:
		spec, changed, err := c.pinSpec(ctx, job.Spec)
		if err != nil || !changed {
			return job, err
		}
		pinned := *job
		pinned.Spec = spec
		return &pinned, nil
	case s.Spec != nil:
		spec, changed, err := c.pinSpec(ctx, *s.Spec)
		if changed {
			s.Spec = &spec
		}
		return nil, err
	}
	return nil, nil
}

// pinSpec returns a spec whose steps have pinned files, and whether that made a difference.
func (c *Client) pinSpec(ctx context.Context, spec task.Spec) (task.Spec, bool, error) {
	changed := false
	err := spec.ChangeSteps(func(_ string, step *task.Step) error {
		if step.Files == nil {
			return nil
		}
		f, err := c.pinned(ctx, step.Files)
		if err == nil {
			step.Files, changed = f, true
		}
		return err
	})
	return spec, changed && err == nil, err
}

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
