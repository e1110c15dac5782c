// Package client is how a Go program uses Millrace: it submits tasks, looks at them, waits for
// them, cancels them, and gives a worker (package millrace/worker) what it needs to run them.
//
//	c, err := client.Connect(ctx, client.Options{}) // $NATS_URL, or the running `millrace dev`
//	…
//	defer c.Close()
//	t, err := c.Submit(ctx, birth.Submission{Job: "resize"})
//	…
//	done, err := c.Wait(ctx, t.ID)
//
// Package millrace/task explains tasks and their states.
package client
