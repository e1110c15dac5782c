package client

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"millrace/events"
	"millrace/jet"
	"millrace/node"
	"millrace/task"
)

// atOnce is how many children are cancelled or looked at at the same time.
const atOnce = 16

// expand finds the children of a new parent and makes them. If the process dies on the
// way, a scheduler does the rest. It returns the parent as it is then.
func (c *Client) expand(ctx context.Context, t task.Task) (task.Task, error) {
	id := t.ID
	var err error
	if t.Children == nil {
		var nodes []node.Node
		var at uint64
		if len(t.Spec.Place.Nodes) > 0 {
			at, err = c.store.Last(ctx)
		} else {
			nodes, at, err = c.KnownNodes(ctx)
		}
		if err != nil {
			return t, fmt.Errorf("find the nodes: %w", err)
		}
		if t, _, err = c.rec.Do(ctx, t, node.Expand(&t, nodes, at)); err != nil {
			return t, err
		}
	}
	names := t.Wanting(nil)
	facts := make([]*events.Fact, len(names))
	for i, name := range names {
		facts[i] = c.rec.Fact(task.ChildID(id, name), task.Child(&t, name))
	}
	var failed error
	c.store.PlaceAll(ctx, facts, func(i int, seq uint64, err error) {
		birth := facts[i].Event.(task.Submitted)
		if errors.Is(err, events.ErrUnknown) && ctx.Err() == nil {
			_, err = c.rec.Submit(ctx, facts[i].Task, birth)
		} else if err == nil && !birth.Due.IsZero() {
			err = c.rec.Settle(ctx, task.Evolve(task.Task{ID: facts[i].Task}, task.Recorded{Seq: seq, At: facts[i].At, Event: birth}))
		}
		failed = errors.Join(failed, err)
	})
	return t, failed
}

// KnownNodes are the nodes as they were at a sequence of the log: as a millrace
// server has them, or, if none answers, those whose heartbeat lives.
func (c *Client) KnownNodes(ctx context.Context) ([]node.Node, uint64, error) {
	page, err := c.Nodes(ctx, NodeListRequest{Bare: true})
	if err == nil {
		nodes := make([]node.Node, len(page.Nodes))
		for i := range page.Nodes {
			nodes[i] = page.Nodes[i].Node
		}
		return nodes, page.Seq, nil
	}
	if !errors.Is(err, jet.ErrNoService) {
		return nil, 0, err
	}
	at, err := c.store.Last(ctx)
	if err != nil {
		return nil, 0, err
	}
	alive, err := c.store.Alive(ctx)
	if err != nil {
		return nil, 0, err
	}
	var nodes []node.Node
	for id := range alive {
		n, err := c.rec.LoadNode(ctx, id)
		if err != nil {
			return nil, 0, err
		}
		nodes = append(nodes, n)
	}
	return nodes, at, nil
}

// Children returns the states of a parent's children, by id. The log itself is
// read, so it takes a while for many.
func (c *Client) Children(ctx context.Context, t *task.Task) (map[task.ID]task.State, error) {
	states := map[task.ID]task.State{}
	err := c.eachChild(ctx, t, func(child task.Task) error { return nil }, func(child task.Task) { states[child.ID] = child.State })
	return states, err
}

// eachChild reads the children of a parent, several at once, and calls do with each of
// those that are there, and then, one at a time, then.
func (c *Client) eachChild(ctx context.Context, t *task.Task, do func(task.Task) error, then func(task.Task)) error {
	done := make(chan task.Task)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for child := range done {
			then(child)
		}
	}()
	var g errgroup.Group
	g.SetLimit(atOnce)
	for _, id := range task.ChildIDs(t) {
		g.Go(func() error {
			child, err := c.rec.Load(ctx, id)
			if errors.Is(err, task.ErrUnknown) {
				return nil
			}
			if err == nil {
				err = do(child)
			}
			done <- child
			return err
		})
	}
	err := g.Wait()
	close(done)
	<-over
	return err
}

// cancelChildren passes the cancel of a parent on to those that have not ended.
func (c *Client) cancelChildren(ctx context.Context, t *task.Task) error {
	return c.eachChild(ctx, t, func(child task.Task) error {
		_, err := c.Cancel(ctx, child.ID, "its parent was cancelled")
		if errors.Is(err, task.ErrEnded) {
			return nil
		}
		return err
	}, func(task.Task) {})
}

// retryChildren gives those children of a parent that did not finish another life.
func (c *Client) retryChildren(ctx context.Context, t *task.Task, reason string) error {
	return c.eachChild(ctx, t, func(child task.Task) error {
		if child.State == task.Finished || !child.State.Terminal() {
			return nil
		}
		_, err := c.Retry(ctx, child.ID, reason)
		if errors.Is(err, task.ErrRunning) {
			return nil
		}
		return err
	}, func(task.Task) {})
}
