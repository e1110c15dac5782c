package change

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"millrace/internal/cli/exit"
	"millrace/internal/cli/settings"
	look "millrace/internal/cli/task"
	"millrace/service/client"
	"millrace/task"
)

// Tasks returns the commands below millrace task that change tasks.
func (a *Commands) Tasks() []*cobra.Command {
	return []*cobra.Command{a.taskCancel(), a.taskRetry(), a.taskEdit(), a.taskRelease(), a.taskSignal()}
}

func (a *Commands) taskCancel() *cobra.Command {
	return a.actCommand(&cobra.Command{
		Use: "cancel ID... | FILTERS", Aliases: []string{"stop", "kill"},
		Short: "Cancel tasks",
		Long: `Cancels tasks: the named ones, or all open tasks that the filters choose.
A waiting task is cancelled at once; a running one is cancelling until
its process is gone. --wait waits for that.` + bulkWords,
		Example: `  millrace task cancel ID
  millrace task cancel --queue bulk --state pending --dry-run
  millrace task cancel --job crawl --label customer=acme --yes`,
	}, byReason((*client.Client).Cancel), &client.CancelMany)
}

func (a *Commands) taskRetry() *cobra.Command {
	return a.actCommand(&cobra.Command{
		Use: "retry ID... | FILTERS", Aliases: []string{"rerun", "requeue"},
		Short: "Give tasks that have ended another life",
		Long: `Gives tasks another life, unchanged, with all their retries: the named ones, or all
that ended as error, cancelled or abnormal and that the filters choose.
"millrace task copy" makes a new task instead, with changes.` + bulkWords,
		Example: `  millrace task retry ID --reason "the disk is back"
  millrace task retry --state error --job thumbnail --since 2h --dry-run`,
	}, byReason((*client.Client).Retry), &client.RetryMany)
}

func (a *Commands) taskRelease() *cobra.Command {
	return a.actCommand(&cobra.Command{
		Use: "release ID...", Aliases: []string{"free"},
		Short: "Let any node take tasks that wait for certain nodes",
		Long: `Moves tasks that wait for the nodes of their place.nodes to their shared queue, where
any node that serves it can take them. Running tasks stay where they are.`,
	}, byReason((*client.Client).Release), nil)
}

// act changes one task, for a reason and with data.
type act func(*client.Client, context.Context, task.ID, string, json.RawMessage) (task.Task, error)

// byReason is an act that ignores data.
func byReason(do func(*client.Client, context.Context, task.ID, string) (task.Task, error)) act {
	return func(cl *client.Client, ctx context.Context, id task.ID, reason string, _ json.RawMessage) (task.Task, error) {
		return do(cl, ctx, id, reason)
	}
}

func (a *Commands) taskSignal() *cobra.Command {
	return a.actCommand(&cobra.Command{
		Use: "signal ID... | FILTERS", Aliases: []string{"approve"},
		Short: "Give tasks the signal that they wait for",
		Long: `Gives tasks the signal that they wait for (signal in a job, run --signal), such as
an approval, so that they go on. They find the value of --data in MILLRACE_NEEDS, with
the name of the user who gave it. To refuse, use "millrace task cancel".` + bulkWords,
		Example: `  millrace task signal ID --data '{"by":"the board"}'
  millrace task signal --job release --label version=4.2 --dry-run`,
	}, func(cl *client.Client, ctx context.Context, id task.ID, reason string, data json.RawMessage) (task.Task, error) {
		return cl.Signal(ctx, id, data, reason)
	}, &client.SignalMany)
}

// actCommand makes a command that changes each of several tasks. A failure with one task does not
// stop the others. If many is given, the command can also change all tasks that filters choose.
func (a *Commands) actCommand(c *cobra.Command, do act, many *client.ManyAct) *cobra.Command {
	f := bulkFlags{do: do, many: many}
	c.ValidArgsFunction = a.CompleteTasks
	c.Flags().StringVar(&f.reason, "reason", "asked for on the command line", "why, in `words`; the log keeps them")
	c.Flags().BoolVar(&f.wait, "wait", false, "wait for the end")
	if many == &client.SignalMany {
		c.Flags().StringVar(&f.data, "data", "", "data for the tasks, `JSON|@file|-`")
	}
	f.Flags(c)
	if many == nil {
		c.Args = settings.Takes(1, -1, "task id")
		c.RunE = a.WithTasks(func(ctx context.Context, cl *client.Client, ids []task.ID) error { return a.actOn(ctx, c, cl, ids, &f) })
		return c
	}
	a.bulkFlags(c, &f)
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := f.check(c, args, a.Now()); err != nil {
			return exit.Misuse(c, "%w", err)
		}
		return a.WithTasks(func(ctx context.Context, cl *client.Client, ids []task.ID) error {
			if err := f.readData(a.In); err != nil {
				return err
			}
			if len(args) > 0 {
				return a.actOn(ctx, c, cl, ids, &f)
			}
			if err := f.Times(c, a.Now()); err != nil {
				return exit.Misuse(c, "%w", err)
			}
			return a.bulk(ctx, c, cl, &f)
		})(c, args)
	}
	return c
}

// actOn changes the named tasks.
func (a *Commands) actOn(ctx context.Context, c *cobra.Command, cl *client.Client, ids []task.ID, f *bulkFlags) error {
	done := []task.Task{}
	var errs []error
	for _, id := range ids {
		asking, cancel := a.Asking(ctx)
		t, err := f.do(cl, asking, id, f.reason, f.body)
		cancel()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if done = append(done, t); !f.wait && !f.JSON() {
			if _, err := fmt.Fprintf(a.Out, "%s %s\n", t.ID, t.State); err != nil {
				return err
			}
		}
	}
	failed := exit.All(errs)
	switch {
	case f.wait && len(done) > 0:
		return exit.First(failed, a.waitFor(ctx, cl, done, c.Name() == "cancel", f.JSON()))
	case f.JSON():
		return exit.First(failed, a.WriteJSON(done))
	}
	return failed
}

// waitFor waits for the end of changed tasks. After a cancel, a cancelled task is a success and any
// other end is not.
func (a *Commands) waitFor(ctx context.Context, c *client.Client, tasks []task.Task, cancelled, asJSON bool) error {
	ids := make([]task.ID, len(tasks))
	for i := range tasks {
		ids[i] = tasks[i].ID
	}
	err := look.Of(a.App).WaitAll(ctx, c, ids, asJSON)
	if !cancelled || ctx.Err() != nil {
		return err
	}
	var f *exit.Fault
	switch {
	case err == nil, errors.As(err, &f) && f.Err == nil && f.Code != exit.Interrupted:
		return &exit.Fault{Code: exit.Refused, Err: errors.New("a task came to another end before it could be cancelled")}
	case f != nil && f.Err == nil:
		return nil
	}
	return err
}
