package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"millrace/client"
	"millrace/events"
	"millrace/jet"
	"millrace/node"
	"millrace/task"
)

// surroundings finds what the duty of a task depends on. If no millrace server
// answers it looks at the nodes whose heartbeat lives, and returns what it knows
// together with an error that wraps [jet.ErrNoService].
func surroundings(ctx context.Context, c *client.Client, t *task.Task) (task.Surroundings, error) {
	if t.State.Terminal() {
		return task.Surroundings{}, nil
	}
	page, err := c.Nodes(ctx, client.NodeListRequest{})
	if err == nil {
		nodes := make([]node.Node, len(page.Nodes))
		for i := range page.Nodes {
			nodes[i] = page.Nodes[i].Node
		}
		return around(t, nodes), nil
	}
	if !errors.Is(err, jet.ErrNoService) {
		return task.Surroundings{}, err
	}
	nodes, found := livingNodes(ctx, c, node.ID(t.Node))
	if found != nil {
		return task.Surroundings{}, found
	}
	return around(t, nodes), err
}

// livingNodes folds the nodes whose heartbeat lives, and one more.
func livingNodes(ctx context.Context, c *client.Client, also node.ID) ([]node.Node, error) {
	alive, err := c.Store().Alive(ctx)
	if err != nil {
		return nil, err
	}
	ids := slices.Collect(maps.Keys(alive))
	if _, ok := alive[also]; !ok && also != "" {
		ids = append(ids, also)
	}
	var nodes []node.Node
	for _, id := range ids {
		records, err := c.Store().Node(ctx, id)
		if err != nil {
			return nil, err
		}
		if len(records) > 0 {
			nodes = append(nodes, events.FoldNode(id, records))
		}
	}
	return nodes, nil
}

// around reads the surroundings of a task off the nodes.
func around(t *task.Task, nodes []node.Node) task.Surroundings {
	var s task.Surroundings
	var served time.Time // until when the last node that serves the queue did
	for i := range nodes {
		n := &nodes[i]
		switch {
		case n.Serves(t.Route.Queue()):
			s.Serving++
		case slices.Contains(n.Queues, t.Route.Queue()) && n.Since.After(served):
			served = n.Since
		}
		if string(n.ID) == t.Node && t.Live() && (n.State == node.Offline || n.State == node.Retired) {
			s.NodeGone = n.Since
		}
	}
	if s.Serving == 0 {
		s.Unserved = served
	}
	return s
}
