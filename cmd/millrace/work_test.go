package main

import (
	"context"
	"strconv"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"millrace/events"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/output"
	"millrace/task/placement"
	"millrace/task/value"
)

// work plays a worker that runs nothing: "work 3 hello 'oh no'" takes the next task of the default
// queue in the background, prints the words in turn to stdout and stderr, and ends the task with
// the exit code.
func work(ts *testscript.TestScript, _ bool, args []string) {
	code, err := strconv.Atoi(args[0])
	ts.Check(err)
	ctx, cancel := context.WithCancel(context.Background())
	c, err := client.Connect(ctx, client.Options{Server: ts.Getenv("URL")})
	ts.Check(err)
	offers, err := c.Store().Offers(ctx, []string{placement.DefaultQueue})
	ts.Check(err)
	done := make(chan error, 1)
	go func() { done <- workOne(ctx, c, offers, code, args[1:]) }()
	ts.Defer(func() {
		cancel()
		<-done
		offers.Close()
		c.Close()
	})
}

func workOne(ctx context.Context, c *client.Client, offers events.Offers, code int, words []string) error {
	o, err := offers.Next(ctx)
	if err != nil {
		return err
	}
	rec := &events.Recorder{Log: c.Store(), Now: time.Now, NewID: events.NewID}
	t, err := rec.Load(ctx, o.Fact.Task)
	if err != nil {
		return err
	}
	if t, _, err = rec.Do(ctx, t, task.Claim{Node: "node-a", Session: "s1", Offer: o.Seq, After: t.Turn}); err != nil {
		return err
	}
	lines := output.Lines{Task: t.ID, Attempt: t.Attempt, Epoch: t.Epoch}
	for i, w := range words {
		stream := []string{output.Stdout, output.Stderr}[i%2]
		lines.Lines = append(lines.Lines, output.Line{N: i + 1, At: time.Now(), Stream: stream, Text: w})
	}
	if err := c.Store().Print(ctx, lines); err != nil {
		return err
	}
	var end task.Command = task.Finish{Epoch: t.Epoch, Exit: &code}
	if code != 0 {
		end = task.Fail{Epoch: t.Epoch, Class: value.Exit, Exit: &code, Message: "it did not go well"}
	}
	if _, _, err = rec.Do(ctx, t, end); err != nil {
		return err
	}
	return o.Ack()
}
