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

// surroundings finds what the duty of a task depends on, and the nodes. If no millrace server
// answers it looks at the nodes whose heartbeat lives, and returns what it knows
// together with an error that wraps [jet.ErrNoService].
func surroundings(ctx context.Context, c *client.Client, t *task.Task) (task.Surroundings, []node.Node, error) {
	if t.State.Terminal() {
		return task.Surroundings{}, nil, nil
	}
	said, err := saidOf(ctx, c, t)
	if err != nil {
		return task.Surroundings{}, nil, err
	}
	s, nodes, err := surroundingNodes(ctx, c, t, said)
	if t.State != task.Pending || s.Serving == 0 || s.Paused != nil {
		return s, nodes, err
	}
	until, consumer, unknown := c.Store().LanePaused(ctx, t.Lane())
	if unknown != nil {
		return s, nodes, unknown
	}
	if !until.IsZero() {
		s.Paused = &task.Pause{Until: until, Consumer: consumer}
	}
	return s, nodes, err
}

// surroundingNodes is surroundings as far as the nodes and the log tell them.
func surroundingNodes(ctx context.Context, c *client.Client, t *task.Task, said task.Queue) (task.Surroundings, []node.Node, error) {
	page, err := c.Nodes(ctx, client.NodeListRequest{})
	if err == nil {
		nodes := make([]node.Node, len(page.Nodes))
		for i := range page.Nodes {
			nodes[i] = page.Nodes[i].Node
		}
		return around(t, nodes, said, c.Now()), nodes, nil
	}
	if !errors.Is(err, jet.ErrNoService) {
		return task.Surroundings{}, nil, err
	}
	also := []node.ID{node.ID(t.Node)}
	if on, own := t.Route.Node(); own {
		also = append(also, node.ID(on))
	}
	nodes, found := livingNodes(ctx, c, also)
	if found != nil {
		return task.Surroundings{}, nil, found
	}
	return around(t, nodes, said, c.Now()), nodes, err
}

// saidOf is what operators have said about the queue in which a task waits.
func saidOf(ctx context.Context, c *client.Client, t *task.Task) (task.Queue, error) {
	name := t.QueueName() // of a selector's route that whose nodes it chooses
	if task.ValidName("queue", name) != nil {
		return task.Queue{Name: name}, nil // a node's own route
	}
	return c.Queue(ctx, name)
}

// livingNodes folds the nodes whose heartbeat lives, and some more.
func livingNodes(ctx context.Context, c *client.Client, also []node.ID) ([]node.Node, error) {
	alive, err := c.Store().Alive(ctx)
	if err != nil {
		return nil, err
	}
	ids := slices.Collect(maps.Keys(alive))
	for _, id := range also {
		if _, ok := alive[id]; !ok && id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
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
func around(t *task.Task, nodes []node.Node, said task.Queue, now time.Time) task.Surroundings {
	w := node.NewWorld(nodes, 0, now)
	w.Tell(said)
	s := w.Around(t)
	if _, own := t.Route.Node(); own || s.Serving > 0 {
		return s
	}
	want := node.WantOfTask(t)
	for i := range nodes { // until when the last node that could claim it did
		if rule, _ := nodes[i].Excluded(want); rule.Passing() && nodes[i].Since.After(s.Unserved) {
			s.Unserved = nodes[i].Since
		}
	}
	return s
}
