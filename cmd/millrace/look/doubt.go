package look

import (
	"context"

	"millrace/client"
	"millrace/node"
	"millrace/task"
	"millrace/view"
)

// doubt returns the doubts about the node on which a task depends, by the settings of this command;
// nil for none.
func (a *Commands) doubt(ctx context.Context, c *client.Client, t *task.Task) (*node.Doubt, error) {
	s, err := a.Settings()
	if err != nil {
		return nil, err
	}
	return view.Doubt(ctx, c.View(), t, a.Now(), node.Settings{TTL: s.NodeTTL})
}
