package look

import (
	"context"

	"millrace/client"
	"millrace/jet/roles"
	"millrace/node"
	"millrace/task"
	"millrace/view"
)

// doubt returns the doubts about the node on which a task depends; nil for none.
func (a *Commands) doubt(ctx context.Context, c *client.Client, t *task.Task) (*node.Doubt, error) {
	if on, _ := node.DependsOn(t); on == "" {
		return nil, nil
	}
	if c.May(roles.NodeList) != nil {
		return nil, nil // it may not see the nodes
	}
	rules, err := a.InForce(ctx, c)
	if err != nil {
		return nil, err
	}
	return view.Doubt(ctx, c.View(), t, a.Now(), rules.Nodes())
}
