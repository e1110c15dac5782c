package task

import (
	"context"

	"millrace/events/jet/rights"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/node"
)

// doubt returns the doubts about the node on which a task depends; nil for none.
func (a *Commands) doubt(ctx context.Context, c *client.Client, t *task.Task) (*node.Doubt, error) {
	if on, _ := node.DependsOn(t); on == "" {
		return nil, nil
	}
	if c.May(rights.NodeList) != nil {
		return nil, nil // it may not see the nodes
	}
	rules, err := a.InForce(ctx, c)
	if err != nil {
		return nil, err
	}
	return view.Doubt(ctx, c.View(), t, a.Now(), rules.Nodes())
}
