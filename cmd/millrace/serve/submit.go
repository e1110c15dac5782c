package serve

import (
	"context"

	"millrace/client"
	"millrace/task"
)

// submitter submits what running tasks ask for, on behalf of their node.
func submitter(c *client.Client) func(context.Context, task.Submission) error {
	return func(ctx context.Context, s task.Submission) error { return c.Spawn(ctx, s) }
}
