package client

import (
	"context"

	"millrace/node"
)

// Ping asks the process of a node for itself, past the log and any server of Millrace. The error
// wraps [jet.ErrNoPong] if none answers before ctx ends.
func (c *Client) Ping(ctx context.Context, id node.ID) (node.Pong, error) {
	return c.store.Ping(ctx, id)
}
