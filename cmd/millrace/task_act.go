package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"millrace/client"
	"millrace/task"
)

func (a *app) taskCancel() *cobra.Command {
	return a.actCommand(&cobra.Command{
		Use: "cancel ID...", Aliases: []string{"stop", "kill"},
		Short: "Ask for the end of tasks",
		Long: `Ends tasks. One that waits is cancelled at once; one that runs is cancelling until
its process is gone. --wait waits for that.`,
	}, (*client.Client).Cancel)
}

func (a *app) taskRetry() *cobra.Command {
	return a.actCommand(&cobra.Command{
		Use: "retry ID...", Aliases: []string{"rerun", "requeue"},
		Short: "Give tasks that have ended another life",
	}, (*client.Client).Retry)
}

func (a *app) taskRelease() *cobra.Command {
	return a.actCommand(&cobra.Command{
		Use: "release ID...", Aliases: []string{"free"},
		Short: "Let any node take tasks that wait for a certain one",
		Long: `Moves tasks that wait for the nodes of their place.nodes to their shared queue, where
any node that serves it can take them. What runs already goes on where it is.`,
	}, (*client.Client).Release)
}

func (a *app) taskSignal() *cobra.Command {
	var data string
	var body []byte
	c := &cobra.Command{
		Use: "signal ID...", Aliases: []string{"approve"},
		Short: "Give tasks the signal that they wait for",
		Long: `Lets tasks go on that wait for a word from outside (signal in a job, run --signal):
an approval, or news that something has come. What --data says they find in
MILLRACE_NEEDS, with who gave it. "millrace task cancel" refuses instead.`,
	}
	c.Flags().StringVar(&data, "data", "", "what comes with it, `JSON|@file|-`")
	return a.actCommand(c, func(cl *client.Client, ctx context.Context, id task.ID, reason string) (task.Task, error) {
		if body == nil && data != "" { // once, for "-" can be read once
			var err error
			if body, err = paramsBody(data, a.in); err != nil {
				return task.Task{}, fmt.Errorf("--data: %w", err)
			}
		}
		return cl.Signal(ctx, id, body, reason)
	})
}

// actCommand makes a command that does something to each of several tasks. What
// cannot be done to one keeps nothing from the others.
func (a *app) actCommand(c *cobra.Command, do func(*client.Client, context.Context, task.ID, string) (task.Task, error)) *cobra.Command {
	var o output
	var reason string
	var wait bool
	c.Args, c.ValidArgsFunction = takes(1, -1, "task id"), a.completeTasks
	c.Flags().StringVar(&reason, "reason", "asked for on the command line", "why, in `words`; the log keeps them")
	c.Flags().BoolVar(&wait, "wait", false, "wait for the end")
	o.flags(c)
	c.RunE = a.withTasks(func(ctx context.Context, cl *client.Client, ids []task.ID) error {
		done := []task.Task{}
		var errs []error
		for _, id := range ids {
			asking, cancel := a.asking(ctx)
			t, err := do(cl, asking, id, reason)
			cancel()
			if err != nil {
				errs = append(errs, err)
				continue
			}
			if done = append(done, t); !wait && !o.json() {
				if _, err := fmt.Fprintf(a.out, "%s %s\n", t.ID, t.State); err != nil {
					return err
				}
			}
		}
		failed := allFaults(errs)
		switch {
		case wait && len(done) > 0:
			return first(failed, a.waitFor(ctx, cl, done, c.Name() == "cancel", o.json()))
		case o.json():
			return first(failed, a.writeJSON(done))
		}
		return failed
	})
	return c
}

// waitFor waits for tasks after something was done to them. To have been
// cancelled is a success for who asked for it, and anything else is not.
func (a *app) waitFor(ctx context.Context, c *client.Client, tasks []task.Task, cancelled, asJSON bool) error {
	ids := make([]task.ID, len(tasks))
	for i := range tasks {
		ids[i] = tasks[i].ID
	}
	err := a.waitAll(ctx, c, ids, asJSON)
	if !cancelled || ctx.Err() != nil {
		return err
	}
	var f *fault
	switch {
	case err == nil, errors.As(err, &f) && f.err == nil && f.code != exitInterrupted:
		return &fault{code: exitRefused, err: errors.New("a task came to another end before it could be cancelled")}
	case f != nil && f.err == nil:
		return nil
	}
	return err
}

// allFaults is one error of several, with the exit code of the first.
func allFaults(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	f := *faultOf(errs[0])
	f.err = errors.Join(errs...)
	return &f
}

// first returns the first error that has something to say.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *app) taskWait() *cobra.Command {
	var o output
	var patience time.Duration
	c := &cobra.Command{
		Use: "wait ID...", Short: "Wait for the end of tasks",
		Long: `Waits for the end of tasks, prints how each ended and ends with the exit code of
the first that did not finish (see "millrace help exit-codes").`,
		Args: takes(1, -1, "task id"), ValidArgsFunction: a.completeTasks,
	}
	c.Flags().DurationVar(&patience, "timeout", 0, "how long to wait (default for ever)")
	o.flags(c)
	c.RunE = a.withTasks(func(ctx context.Context, cl *client.Client, ids []task.ID) error {
		if patience > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, patience)
			defer cancel()
		}
		return a.waitAll(ctx, cl, ids, o.json())
	})
	return c
}
