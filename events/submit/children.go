package submit

import (
	"context"
	"errors"
	"fmt"

	"millrace/events"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/node"
)

// Raise makes the children of a parent that this process has just recorded. If the process dies on
// the way, a scheduler makes the rest. Raise does nothing for a task without children, or for one
// that does not start yet.
func (d *Maker) Raise(ctx context.Context, n *Newborn) error {
	if !n.Birth.Spec.Parental() || len(n.Birth.Holds) > 0 {
		return nil
	}
	t, err := d.Rec.Load(ctx, n.ID)
	if err == nil {
		_, err = d.Expand(ctx, &t)
	}
	if err == nil {
		err = d.BearChildren(ctx, &t, birth.Wanting(&t, nil))
	}
	if err != nil {
		return fmt.Errorf("task %s is submitted, and a scheduler makes its children, for this process could not: %w", n.ID, err)
	}
	return nil
}

// Expand chooses the children of a parent, if that is not done, and tells whether this call did it.
// t becomes the parent as it is then; it may have ended.
func (d *Maker) Expand(ctx context.Context, t *task.Task) (chose bool, err error) {
	if t.Children != nil {
		return false, nil
	}
	var nodes []node.Node
	var at uint64
	var rule string
	if _, own := birth.OwnChildren(t); !own {
		if nodes, at, rule, err = d.Nodes(ctx, t); err != nil {
			return false, fmt.Errorf("find the nodes: %w", err)
		}
	}
	return d.expand(ctx, t, nodes, at, rule)
}

// Include adds a child to a parent for each of these nodes that its place chooses and that has no
// child yet.
func (d *Maker) Include(ctx context.Context, t *task.Task, nodes []node.Node, at uint64) error {
	before := len(t.Children.Names)
	if chose, err := d.expand(ctx, t, nodes, at, ""); err != nil || !chose {
		return err
	}
	return d.BearChildren(ctx, t, t.Children.Names[before:])
}

// expand records which children a parent gets. Another process may be faster, or may end it.
func (d *Maker) expand(ctx context.Context, t *task.Task, nodes []node.Node, at uint64, rule string) (chose bool, err error) {
	command := task.Command(node.Expand(t, nodes, at))
	if rule != "" {
		command = task.Judged{Command: command, By: task.By{Rule: rule}}
	}
	event, err := d.Rec.Move(ctx, t, command)
	if errors.Is(err, task.ErrEnded) {
		err = nil
	}
	return event != nil, err
}

// BearChildren records the births of these children of a parent, many at once. Other processes may
// do so concurrently: existing children stay as they are, and a repeated birth counts once. A
// parent whose cancel would stop them at once, or that has ended, gets none.
func (d *Maker) BearChildren(ctx context.Context, parent *task.Task, names []string) error {
	if len(names) == 0 || birth.Unmade(parent) || parent.State.Terminal() {
		return nil
	}
	births := birth.Births(parent)
	var facts []*events.Fact
	for _, name := range names {
		facts = append(facts, d.Rec.Fact(birth.ChildID(parent.ID, name), births(name)))
	}
	return d.place(ctx, facts, func(int, uint64) {})
}
