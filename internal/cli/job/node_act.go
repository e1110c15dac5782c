package job

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/node"
)

// Drain is what the command that drains a node has of its own: it waits until no task runs there.
func (a *Commands) Drain(c *cobra.Command) func(context.Context, *client.Client, any) (any, string, error) {
	var noWait bool
	c.Flags().BoolVar(&noWait, "no-wait", false, "do not wait until no task runs there")
	return func(ctx context.Context, cl *client.Client, answer any) (any, string, error) {
		n := answer.(client.NodeView).Node
		if noWait {
			v, err := a.viewNode(ctx, cl, n)
			return v, "", err
		}
		running, err := a.awaitDrained(ctx, cl, n)
		if err != nil {
			return nil, "", err
		}
		asking, cancel := a.Asking(ctx)
		defer cancel()
		if n, err = cl.Node(asking, n.ID); err != nil {
			return nil, "", err
		}
		v, err := a.viewNode(ctx, cl, n)
		v.Runs(running)
		return v, fmt.Sprintf(", %s", wording.Plural(running, "task")+" left"), err
	}
}

// viewNode returns a node as people see it.
func (a *Commands) viewNode(ctx context.Context, cl *client.Client, n node.Node) (client.NodeView, error) {
	rules, err := a.nodeRules(ctx, cl)
	return client.ViewNode(n, a.Now(), rules), err
}

// drainLook is how often a drain checks how much is left.
const drainLook = 300 * time.Millisecond

// awaitDrained waits until a node runs nothing, as far as the log knows.
func (a *Commands) awaitDrained(ctx context.Context, cl *client.Client, n node.Node) (running int, err error) {
	p := a.Progress()
	defer p.Stop()
	ticker := time.NewTicker(drainLook)
	defer ticker.Stop()
	for {
		asking, cancel := a.Asking(ctx)
		page, err := cl.Nodes(asking, client.NodeListRequest{AtLeast: n.Head})
		cancel()
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		if err != nil {
			return 0, fmt.Errorf("the node is drained, and how much it still runs cannot be seen: %w", err)
		}
		for _, v := range page.Nodes {
			if v.ID != n.ID {
				continue
			}
			if v.Running == 0 {
				return 0, nil
			}
			p.Say(fmt.Sprintf("%s to end on %s", wording.Plural(v.Running, "task"), n.ID), task.Task{Since: n.Standing.Since})
		}
		select {
		case <-ctx.Done():
			a.Note("interrupted; node %s stays drained: `millrace node undrain %s` takes that back", n.ID, n.ID)
			return 0, ctx.Err()
		case <-ticker.C:
		}
	}
}

func (a *Commands) nodeWait() *cobra.Command {
	var o settings.Output
	var ready bool
	stable, patience := settings.Span{}, settings.Span{Least: time.Millisecond}
	c := &cobra.Command{
		Use: "wait NAME", Short: "Wait until a node is ready, or has been for a while",
		Long: `Waits until a node has proved that work reaches it (--ready, the default), or has been
ready without a drop for a while (--stable 20s). When the time is up it says why the node is not
ready and the next step, and ends with code 6.`,
		Args: settings.Takes(1, 1, "node"), ValidArgsFunction: a.CompleteNodes,
	}
	c.Flags().BoolVar(&ready, "ready", false, "until it is ready (the default)")
	c.Flags().Var(&stable, "stable", "until it has been ready for so long without a drop")
	c.Flags().Var(&patience, "timeout", "how long to wait for the node (default for ever; $NATS_TIMEOUT is that of the connection)")
	o.Flags(c)
	wait := a.Online(func(ctx context.Context, cl *client.Client, args []string) error {
		id, waiting := node.ID(args[0]), ctx
		if patience.D > 0 {
			var cancel context.CancelFunc
			waiting, cancel = context.WithTimeout(ctx, patience.D)
			defer cancel()
		}
		p := a.Progress()
		n, err := cl.WaitNode(waiting, id, stable.D, func(n node.Node) {
			p.Say(fmt.Sprintf("node %s is %s: %s", id, n.State, n.Reason), task.Task{Since: n.Since})
		})
		p.Stop()
		if errors.Is(err, context.DeadlineExceeded) {
			rules, invalid := a.nodeRules(ctx, cl)
			if invalid != nil {
				return invalid
			}
			return &term.Fault{Code: term.ExitTimeout, Err: errors.New(unready(n, stable.D, a.Now(), rules)), Hint: term.Hint("`millrace node show %s` says more", id)}
		}
		if err != nil {
			return a.Meant(ctx, cl, err, args[0])
		}
		v, err := a.viewNode(ctx, cl, n)
		switch {
		case err != nil:
			return err
		case o.JSON():
			return a.WriteJSON(v)
		}
		_, err = fmt.Fprintln(a.Out, wording.NodeLine(&v))
		return err
	})
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := validNode(args[0]); err != nil {
			return term.Misuse(c, "%w", err)
		}
		return wait(c, args)
	}
	return c
}

// unready says why a node has not reached the awaited state, and who must act.
func unready(n node.Node, stable time.Duration, now time.Time, rules node.Settings) string {
	text := fmt.Sprintf("timed out waiting: node %s is %s", n.ID, n.State)
	if n.Reason != "" {
		text += fmt.Sprintf(" for %s (%s)", wording.Span(now.Sub(n.Since)), n.Reason)
	}
	if n.State == node.Ready {
		return text + fmt.Sprintf(", and that is less than %v without a drop", stable)
	}
	d := node.Owes(n, rules)
	text += fmt.Sprintf("; %s must act: %s", d.Who, d.What)
	if !d.By.IsZero() {
		text += ", by " + wording.Clock(d.By)
	}
	if d.Else != "" {
		text += "; otherwise " + d.Else
	}
	return text
}
