package client

import (
	"context"
	"time"

	"millrace/events"
	"millrace/node"
	"millrace/task"
)

// Doubt says why nothing may be expected of the node on which a task depends; nil
// if all is well or it depends on none. It asks the log and the heartbeats, so it
// needs no server.
func (c *Client) Doubt(ctx context.Context, t *task.Task, now time.Time, s node.Settings) (*node.Doubt, error) {
	id, _ := node.DependsOn(t)
	if id == "" {
		return nil, nil
	}
	records, err := c.store.Node(ctx, id)
	if err != nil {
		return nil, err
	}
	var nodes []node.Node
	if len(records) > 0 {
		nodes = append(nodes, events.FoldNode(id, records))
	}
	beats, err := c.store.Alive(ctx)
	if err != nil {
		return nil, err
	}
	return node.NewDoubts(nodes, beats, now, s).Of(t), nil
}
