package task

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/service/client"
	"millrace/task"
)

// Wait is millrace task wait.
func (a *Commands) Wait() *cobra.Command {
	var o settings.Output
	patience := settings.Span{Least: time.Millisecond}
	c := &cobra.Command{
		Use: "wait ID...", Short: "Wait for the end of tasks",
		Long: `Waits for the end of tasks, prints how each ended and ends with the exit code of
the first that did not finish (see "millrace help exit-codes").`,
		Args: settings.Takes(1, -1, "task id"), ValidArgsFunction: a.CompleteTasks,
	}
	c.Flags().Var(&patience, "timeout", "how long to wait for the end of the tasks (default for ever; $NATS_TIMEOUT is that of the connection)")
	o.Flags(c)
	c.RunE = a.WithTasks(func(ctx context.Context, cl *client.Client, ids []task.ID) error {
		if patience.D > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, patience.D)
			defer cancel()
		}
		return a.WaitAll(ctx, cl, ids, o.JSON())
	})
	return c
}

// WaitAll waits for tasks, prints how each ended, in the order given, and returns the exit code of
// the first that did not finish. With asJSON it prints the task, or a list if there are several.
func (a *Commands) WaitAll(ctx context.Context, c *client.Client, ids []task.ID, asJSON bool) error {
	p := a.Progress()
	defer p.Stop()
	var ended []task.Task
	code := term.ExitOK
	for i, id := range ids {
		t, err := c.Watch(ctx, id, func(t task.Task) {
			if len(ids) > 1 {
				p.Say(fmt.Sprintf("%d of %d tasks have ended", i, len(ids)), t)
			} else {
				p.Say(wording.Clocks(wording.Brief(&t)), t)
			}
		})
		if err != nil {
			p.Stop()
			return a.stillRunning(ctx, c, err, ids[i:])
		}
		if code == term.ExitOK {
			code = term.ExitOfTask(t)
		}
		if ended = append(ended, t); !asJSON {
			p.Clear()
			if _, err := fmt.Fprintln(a.Out, wording.Ending(&t)); err != nil {
				return err
			}
			if len(t.Result) > 0 {
				if _, err := fmt.Fprintf(a.Out, "result %s\n", term.Printable(string(t.Result))); err != nil {
					return err
				}
			}
		}
	}
	p.Stop()
	if asJSON {
		var v any = ended
		if len(ids) == 1 {
			v = ended[0]
		}
		if err := a.WriteJSON(v); err != nil {
			return err
		}
	}
	return term.ExitWith(code)
}

// stillRunning explains an end of the waiting that is not the tasks' own.
func (a *Commands) stillRunning(ctx context.Context, c *client.Client, err error, ids []task.ID) error {
	what := "task " + string(ids[0]) + " goes on"
	if len(ids) > 1 {
		what = fmt.Sprintf("%d tasks go on", len(ids))
	}
	switch {
	case errors.Is(err, context.Canceled):
		a.Note("interrupted; %s: `millrace task logs -f %s` follows it, `millrace task cancel %s` ends it", what, ids[0], ids[0])
		return term.ExitWith(term.ExitInterrupted)
	case errors.Is(err, context.DeadlineExceeded):
		// The wait's own context has ended; the request has a bound of its own.
		asking, cancel := a.Asking(context.WithoutCancel(ctx))
		defer cancel()
		why := what
		if e, err := Of(a.App).Explain(asking, c, &connect.Sight{View: c.View(), Now: a.Now}, ids[0]); err == nil {
			why = what + ": " + unended(e, a.Now())
		}
		return &term.Fault{Code: term.ExitTimeout, Err: fmt.Errorf("timed out waiting; %s", why),
			Hint: term.Hint("`millrace task why %s` says more", ids[0])}
	}
	return err
}

// unended says why a task has not ended yet, and who must act.
func unended(e *Explanation, now time.Time) string {
	text := fmt.Sprintf("it is %s for %s", e.State, wording.Span(now.Sub(e.Since)))
	if said := e.Said(); said != "" {
		text += " (" + term.Printable(said) + ")"
	}
	text += fmt.Sprintf("; %s must act: %s", e.Who, wording.Clocks(e.What))
	if !e.By.IsZero() {
		text += ", by " + wording.Clock(e.By)
	}
	if e.Else != "" {
		text += "; otherwise " + wording.Clocks(e.Else)
	}
	return text
}
