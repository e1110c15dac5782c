package client

import (
	"context"

	"millrace/task"
	"millrace/task/output"
)

// Live returns how a task stands in its program's own words; its epoch is 0 if the
// program has not said.
func (c *Client) Live(ctx context.Context, id task.ID) (output.Live, error) {
	return c.store.Live(ctx, id)
}

// WatchLive calls said with how a task stands, each time its program says so,
// until stop is called. Words can be lost; the latest is what counts.
func (c *Client) WatchLive(id task.ID, said func(output.Live)) (stop func(), err error) {
	return c.store.WatchLive(id, said)
}

// Checkpoint returns what the next attempt of a task goes on from; its epoch is 0
// if there is nothing.
func (c *Client) Checkpoint(ctx context.Context, id task.ID) (output.Checkpoint, error) {
	return c.store.Checkpoint(ctx, id)
}
