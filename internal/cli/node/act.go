package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"millrace/internal/cli/exit"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/wording"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/node"
)

// nodeOrder makes a command that gives a node an order.
func (a *Commands) nodeOrder(verb string, order node.Order) *cobra.Command {
	var o settings.Output
	var reason string
	var grace settings.Span
	var noWait bool
	c := &cobra.Command{
		Use: verb + " NAME", Args: settings.Takes(1, 1, "node"), ValidArgsFunction: a.CompleteNodes,
		Short: map[string]string{
			"drain":    "Take all work from a node; its worker stays up",
			"undrain":  "Let a node take work again after a drain",
			"cordon":   "Give a node no new work; what runs goes on",
			"uncordon": "Let a node take work again after a cordon",
		}[verb],
	}
	switch order {
	case node.OrderDrain:
		c.Long = `Gives a node no new work, lets its running tasks end, gives back the rest at the
end of the grace time, and waits until no task runs. The worker stays up. The drain
survives restarts of the worker and lasts until "millrace node undrain".`
		c.Flags().Var(&grace, "grace", "how long running tasks may go on (default the worker's own setting; 0 ends them at once)")
		c.Flags().BoolVar(&noWait, "no-wait", false, "do not wait until no task runs there")
	case node.OrderCordon:
		c.Long = `Gives a node no new work; its running tasks go on. This survives restarts of the worker
and lasts until "millrace node uncordon".`
	}
	c.Flags().StringVar(&reason, "reason", "", "why, in `words`; the log keeps them")
	o.Flags(c)
	c.RunE = a.onNode(func(ctx context.Context, cl *client.Client, id node.ID) error {
		if grace.Given && grace.D == 0 {
			grace.D = time.Millisecond // for 0 is the worker's own setting
		}
		asking, cancel := a.Asking(ctx)
		n, err := cl.OrderNode(asking, id, order, reason, grace.D)
		cancel()
		if err != nil {
			return err
		}
		running := -1
		if order == node.OrderDrain && !noWait {
			if running, err = a.awaitDrained(ctx, cl, n); err != nil {
				return err
			}
			asking, cancel := a.Asking(ctx)
			defer cancel()
			if n, err = cl.Node(asking, id); err != nil {
				return err
			}
		}
		return a.sayNode(ctx, cl, n, running, &o)
	})
	return c
}

// sayNode prints the new state of a node; running is how many tasks it runs, -1 if unknown.
func (a *Commands) sayNode(ctx context.Context, cl *client.Client, n node.Node, running int, o *settings.Output) error {
	rules, err := a.nodeRules(ctx, cl)
	if err != nil {
		return err
	}
	v := client.ViewNode(n, a.Now(), rules)
	if running >= 0 {
		v.Runs(running)
	}
	if o.JSON() {
		return a.WriteJSON(v)
	}
	c := wording.NodeCell(&v)
	text := fmt.Sprintf("%s %s", n.ID, c.Text)
	if running >= 0 {
		text += fmt.Sprintf(", %s", wording.Plural(running, "task")+" left")
	}
	_, err = fmt.Fprintln(a.Out, text)
	return err
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

func (a *Commands) nodeRelease() *cobra.Command {
	return a.nodeChange(&cobra.Command{
		Use: "release NAME", Short: "End a node's quarantine and forget how often it came and went",
	}, "", (*client.Client).ReleaseNode)
}

func (a *Commands) nodeRetire() *cobra.Command {
	return a.nodeChange(&cobra.Command{
		Use: "retire NAME", Aliases: []string{"rm"}, Short: "Record that a node will not come back",
		Long: `Records that a node will not come back, and removes what the NATS server holds for it,
except its history. Its worker must have ended. A worker that starts under this name later
registers as a new node.`,
	}, "retired by an operator", (*client.Client).RetireNode)
}

// nodeChange completes a command that changes a node, by default for a reason.
func (a *Commands) nodeChange(c *cobra.Command, why string, change func(*client.Client, context.Context, node.ID, string) (node.Node, error)) *cobra.Command {
	var o settings.Output
	var reason string
	c.Args, c.ValidArgsFunction = settings.Takes(1, 1, "node"), a.CompleteNodes
	c.Flags().StringVar(&reason, "reason", why, "why, in `words`; the log keeps them")
	o.Flags(c)
	c.RunE = a.onNode(func(ctx context.Context, cl *client.Client, id node.ID) error {
		asking, cancel := a.Asking(ctx)
		defer cancel()
		n, err := change(cl, asking, id, reason)
		if err != nil {
			return err
		}
		return a.sayNode(ctx, cl, n, -1, &o)
	})
	return c
}

func (a *Commands) nodeWait() *cobra.Command {
	var o settings.Output
	var ready bool
	stable, patience := settings.Span{}, settings.Span{Least: time.Millisecond}
	c := &cobra.Command{
		Use: "wait NAME", Short: "Wait until a node is ready, or has been for a while",
		Long: `Waits until a node has proved that work reaches it (--ready, the default), or has been
ready without a drop for a while (--stable 20s). When the time is up it says why the node is not
ready and who must act, and ends with code 6.`,
		Args: settings.Takes(1, 1, "node"), ValidArgsFunction: a.CompleteNodes,
	}
	c.Flags().BoolVar(&ready, "ready", false, "until it is ready (the default)")
	c.Flags().Var(&stable, "stable", "until it has been ready for so long without a drop")
	c.Flags().Var(&patience, "timeout", "how long to wait for the node (default for ever; $NATS_TIMEOUT is that of the connection)")
	o.Flags(c)
	c.RunE = a.onNode(func(ctx context.Context, cl *client.Client, id node.ID) error {
		waiting := ctx
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
			return &exit.Fault{Code: exit.Timeout, Err: errors.New(unready(n, stable.D, a.Now(), rules)), Hint: exit.Hint("`millrace node show %s` says more", id)}
		}
		if err != nil {
			return err
		}
		return a.sayNode(ctx, cl, n, -1, &o)
	})
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
