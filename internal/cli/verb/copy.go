package verb

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"millrace/internal/cli/settings"
	look "millrace/internal/cli/task"
	"millrace/internal/cli/term"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/value"
)

// Copy makes a new task of one, with changes.
func (a *Commands) Copy() *cobra.Command {
	var f RunFlags
	c := &cobra.Command{
		Use: "copy ID", Aliases: []string{"clone", "resubmit"},
		Short: "Make a copy of a task, with changes",
		Long: `Submits a copy of a task and prints its id: with the same command, parameters, labels, queue and
rules, except what flags change, even if its job has changed since. The original
stays as it is, and the copy names it.
"millrace task retry" gives the task itself another life instead.`,
		Example: `  millrace task copy ID -p depth=3 --retries 5
  millrace task copy ID --run-timeout 2h --node big-1 --wait`,
		Args: settings.Takes(1, 1, "task id"), ValidArgsFunction: a.CompleteTasks,
	}
	fs := c.Flags()
	fs.StringArrayVarP(&f.Params, "param", "p", nil, "parameter `name=value` set over those of the task (repeat it)")
	fs.StringVar(&f.ParamsIn, "params", "", "parameters as a JSON object, `JSON|@file|-`; --param wins over it")
	fs.StringArrayVarP(&f.Labels, "label", "l", nil, "label `name=value` set over those of the task (repeat it)")
	fs.StringVarP(&f.Queue, "queue", "q", "", "`queue` to wait in")
	fs.StringSliceVar(&f.nodes, "node", nil, "only on this `node`, the preferred first (repeat it)")
	fs.StringVar(&f.noNode, "no-node", "", "what to do while no --node takes work: "+strings.Join(job.NoNodes, ", "))
	fs.Var(&f.delay, "delay", "start it so much later: 90s, 2h, 1d")
	fs.StringVar(&f.at, "at", "", "start it at a `time`")
	fs.Var(&f.timeout, "run-timeout", "how long an attempt may run")
	fs.Var(&f.pending, "pending-timeout", "how long it may wait to be started")
	fs.Var(&f.assign, "assign-timeout", "how long it may wait for a worker while all that serve its queue are busy")
	fs.Var(&f.total, "total-timeout", "how long the whole may take, waits and retries included")
	fs.IntVar(&f.retries, "retries", 0, "how many failed attempts may be followed by another")
	fs.BoolVar(&f.Wait, "wait", false, "wait for the end")
	fs.BoolVarP(&f.Follow, "follow", "f", false, "show the output until the end")
	f.Flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		s, err := a.changes(c, &f)
		if err != nil {
			return term.Misuse(c, "%w", err)
		}
		return a.WithTask(func(ctx context.Context, cl *client.Client, id task.ID) error { return a.copy(ctx, cl, id, s, &f) })(c, args)
	}
	return c
}

// changes returns what the flags change.
func (a *Commands) changes(c *cobra.Command, f *RunFlags) (s birth.Submission, err error) {
	if s.Params, s.Texts, err = settings.Params(f.ParamsIn, f.Params, a.In); err != nil {
		return s, err
	}
	if s.Labels, err = settings.Labels(f.Labels); err != nil {
		return s, err
	}
	if s.At, err = f.due(a.Now()); err != nil {
		return s, err
	}
	if c.Flags().Changed("retries") {
		s.Retries = &f.retries
	}
	s.Queue, s.Nodes, s.NoNode, s.Delay = f.Queue, f.nodes, f.noNode, value.Duration(f.delay.D)
	s.Run, s.Pending, s.Assign, s.Total = f.timeout.Wanted(), f.pending.Wanted(), f.assign.Wanted(), f.total.Wanted()
	return s, nil
}

func (a *Commands) copy(ctx context.Context, cl *client.Client, id task.ID, s birth.Submission, f *RunFlags) (err error) {
	if s.At, err = f.due(a.Now()); err != nil { // once more, by the log's time
		return err
	}
	asking, cancel := a.Asking(ctx)
	receipt, err := cl.Copy(asking, id, s)
	cancel()
	if err != nil {
		return err
	}
	a.Foresee(ctx, cl, &s)
	return look.Of(a.App).Made(ctx, cl, receipt, f.until())
}
