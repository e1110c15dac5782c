package main

import (
	"context"

	"millrace/client"
	"millrace/node"
	"millrace/task"
	"millrace/view"
)

// doubt is what is to be doubted about the node on which a task depends, by the
// settings of this command; nil for nothing.
func (a *app) doubt(ctx context.Context, c *client.Client, t *task.Task) (*node.Doubt, error) {
	profile := profileProd
	if a.dev {
		profile = profileDev
	}
	s, _, err := a.loadSettings(nil, profile)
	if err != nil {
		return nil, err
	}
	return view.Doubt(ctx, c.View(), t, a.now(), node.Settings{TTL: s.NodeTTL})
}

// suspectField says that nothing may be expected of the node of a task.
func suspectField(t *table, d *node.Doubt) {
	if d != nil {
		t.add(dim("suspect"), cell{d.String(), yellow})
	}
}
