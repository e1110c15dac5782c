package client

import (
	"context"

	"millrace/task"
)

// Part is a child of a task that says something about the whole.
type Part struct {
	// Name is what its parent calls it.
	Name    string     `json:"name"`
	Task    task.ID    `json:"task"`
	State   task.State `json:"state"`
	Reason  string     `json:"reason,omitempty"`
	Message string     `json:"message,omitempty"`
	Node    string     `json:"node,omitempty"`
	Attempt int        `json:"attempt,omitempty"`
}

// Parts are the children of a task that tell how it stands, in its order.
type Parts struct {
	// Progress counts all children, in words.
	Progress string `json:"progress"`
	// Failed are those that ended in error or abnormal, Running those that run.
	Failed  []Part `json:"failed,omitempty"`
	Running []Part `json:"running,omitempty"`
}

// Parts reads the children of a task from the log and returns those that failed and those that run; nil for
// a task that has no children.
func (c *Client) Parts(ctx context.Context, t *task.Task) (*Parts, error) {
	if t.Children == nil {
		return nil, nil
	}
	children, err := c.ChildTasks(ctx, t)
	if err != nil {
		return nil, err
	}
	return PartsOf(t, children), nil
}

// PartsOf picks them from the children, which may be in any order.
func PartsOf(t *task.Task, children []task.Task) *Parts {
	byID, ends := make(map[task.ID]*task.Task, len(children)), make(map[task.ID]task.End, len(children))
	for i := range children {
		byID[children[i].ID], ends[children[i].ID] = &children[i], task.EndOf(&children[i])
	}
	p := &Parts{Progress: t.Progress(ends).String()}
	for _, name := range t.Children.Names {
		k := byID[task.ChildID(t.ID, name)]
		if k == nil {
			continue
		}
		part := Part{name, k.ID, k.State, k.Reason, k.Message, k.Node, k.Attempt}
		switch {
		case k.State == task.Error || k.State == task.Abnormal:
			p.Failed = append(p.Failed, part)
		case k.Live():
			p.Running = append(p.Running, part)
		}
	}
	return p
}
