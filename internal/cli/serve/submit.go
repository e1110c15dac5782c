package serve

import (
	"context"

	"millrace/service/client"
	"millrace/task/birth"
)

// submitter submits the children of running tasks, on behalf of their node.
func submitter(c *client.Client) func(context.Context, birth.Submission) error {
	return func(ctx context.Context, s birth.Submission) error { return c.Spawn(ctx, s) }
}
