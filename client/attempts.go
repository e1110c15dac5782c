package client

import (
	"context"

	"millrace/jet"
	"millrace/task"
)

// OutputRanges returns where the output of each attempt of a task lies in the
// stream of output, by the attempt's epoch. It reads a few messages of each attempt.
func (c *Client) OutputRanges(ctx context.Context, id task.ID) (map[uint64]jet.OutputRange, error) {
	return c.store.OutputRanges(ctx, id)
}
