package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"millrace/client"
	"millrace/node"
	"millrace/task"
)

// nodeOrder makes a command that gives a node an order.
func (a *app) nodeOrder(verb string, order node.Order) *cobra.Command {
	var o output
	var reason string
	var grace spanFlag
	var noWait bool
	c := &cobra.Command{
		Use: verb + " NAME", Args: takes(1, 1, "node"), ValidArgsFunction: a.completeNodes,
		Short: map[string]string{
			"drain":    "Take all work from a node; its worker stays up",
			"undrain":  "Let a node take work again after a drain",
			"cordon":   "Give a node no new work; what runs goes on",
			"uncordon": "Let a node take work again after a cordon",
		}[verb],
	}
	switch order {
	case node.OrderDrain:
		c.Long = `Gives a node no new work, lets what runs there end, gives back what is left at the
end of the grace time, and waits until nothing runs. The worker stays up, also over
restarts, and takes work again after "millrace node undrain".`
		c.Flags().Var(&grace, "grace", "how long what runs may go on (default the worker's own setting)")
		c.Flags().BoolVar(&noWait, "no-wait", false, "do not wait until nothing runs there")
	case node.OrderCordon:
		c.Long = `Gives a node no new work, and leaves what runs there alone. It holds over restarts of
the worker, until "millrace node uncordon".`
	}
	c.Flags().StringVar(&reason, "reason", "", "why, in `words`; the log keeps them")
	o.flags(c)
	c.RunE = a.onNode(func(ctx context.Context, cl *client.Client, id node.ID) error {
		asking, cancel := a.asking(ctx)
		n, err := cl.OrderNode(asking, id, order, reason, grace.d)
		cancel()
		if err != nil {
			return err
		}
		running := -1
		if order == node.OrderDrain && !noWait {
			if running, err = a.awaitDrained(ctx, cl, n); err != nil {
				return err
			}
			asking, cancel := a.asking(ctx)
			defer cancel()
			if n, err = cl.Node(asking, id); err != nil {
				return err
			}
		}
		return a.sayNode(n, running, &o)
	})
	return c
}

// sayNode prints what has become of a node; running is how much it runs, -1 if
// nobody looked.
func (a *app) sayNode(n node.Node, running int, o *output) error {
	rules, err := a.nodeRules()
	if err != nil {
		return err
	}
	v := client.ViewNode(n, a.now(), rules)
	if running >= 0 {
		v.Runs(running)
	}
	if o.json() {
		return a.writeJSON(v)
	}
	c := nodeCell(&v)
	text := fmt.Sprintf("%s %s", n.ID, c.text)
	if running >= 0 {
		text += fmt.Sprintf(", %s", plural(running, "task")+" left")
	}
	_, err = fmt.Fprintln(a.out, text)
	return err
}

// drainLook is how often a drain looks how much is left.
const drainLook = 300 * time.Millisecond

// awaitDrained waits until a node runs nothing, as far as the log knows.
func (a *app) awaitDrained(ctx context.Context, cl *client.Client, n node.Node) (running int, err error) {
	p := a.progress()
	defer p.stop()
	tick := time.NewTicker(drainLook)
	defer tick.Stop()
	for {
		asking, cancel := a.asking(ctx)
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
			p.say(fmt.Sprintf("%s to end on %s", plural(v.Running, "task"), n.ID), task.Task{Since: n.Standing.Since})
		}
		select {
		case <-ctx.Done():
			a.note("interrupted; node %s stays drained: `millrace node undrain %s` takes that back", n.ID, n.ID)
			return 0, ctx.Err()
		case <-tick.C:
		}
	}
}

func (a *app) nodeRelease() *cobra.Command {
	var o output
	var reason string
	c := &cobra.Command{
		Use: "release NAME", Short: "End a node's quarantine and forget how often it came and went",
		Args: takes(1, 1, "node"), ValidArgsFunction: a.completeNodes,
	}
	c.Flags().StringVar(&reason, "reason", "", "why, in `words`; the log keeps them")
	o.flags(c)
	c.RunE = a.onNode(func(ctx context.Context, cl *client.Client, id node.ID) error {
		asking, cancel := a.asking(ctx)
		defer cancel()
		n, err := cl.ReleaseNode(asking, id, reason)
		if err != nil {
			return err
		}
		return a.sayNode(n, -1, &o)
	})
	return c
}

func (a *app) nodeRetire() *cobra.Command {
	var o output
	var reason string
	c := &cobra.Command{
		Use: "retire NAME", Aliases: []string{"rm"}, Short: "Say that a node will not come back",
		Long: `Says that a node will not come back, and removes what the server holds for it besides
its history. Its worker must have ended. One that starts under its name later begins a
new life.`,
		Args: takes(1, 1, "node"), ValidArgsFunction: a.completeNodes,
	}
	c.Flags().StringVar(&reason, "reason", "retired by an operator", "why, in `words`; the log keeps them")
	o.flags(c)
	c.RunE = a.onNode(func(ctx context.Context, cl *client.Client, id node.ID) error {
		asking, cancel := a.asking(ctx)
		defer cancel()
		n, err := cl.RetireNode(asking, id, reason)
		if err != nil {
			return err
		}
		return a.sayNode(n, -1, &o)
	})
	return c
}

func (a *app) nodeWait() *cobra.Command {
	var o output
	var ready bool
	var stable, patience spanFlag
	c := &cobra.Command{
		Use: "wait NAME", Short: "Wait until a node is ready, or has been for a while",
		Long: `Waits until a node has proved that work reaches it (--ready, the default), or has been
ready without a drop for a while (--stable 20s). When the time is up it says why the node is not,
who must act, and ends with code 6.`,
		Args: takes(1, 1, "node"), ValidArgsFunction: a.completeNodes,
	}
	c.Flags().BoolVar(&ready, "ready", false, "until it is ready (the default)")
	c.Flags().Var(&stable, "stable", "until it has been ready for so long without a drop")
	c.Flags().Var(&patience, "timeout", "how long to wait for the node (default for ever; $NATS_TIMEOUT is that of the connection)")
	o.flags(c)
	c.RunE = a.onNode(func(ctx context.Context, cl *client.Client, id node.ID) error {
		if patience.d > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, patience.d)
			defer cancel()
		}
		p := a.progress()
		n, err := cl.WaitNode(ctx, id, stable.d, func(n node.Node) {
			p.say(fmt.Sprintf("node %s is %s: %s", id, n.State, n.Reason), task.Task{Since: n.Since})
		})
		p.stop()
		if errors.Is(err, context.DeadlineExceeded) {
			rules, invalid := a.nodeRules()
			if invalid != nil {
				return invalid
			}
			return &fault{code: exitTimeout, err: errors.New(unready(n, stable.d, a.now(), rules)), hint: hint("`millrace node show %s` says more", id)}
		}
		if err != nil {
			return err
		}
		return a.sayNode(n, -1, &o)
	})
	return c
}

// unready says why a node is not what was waited for, and who must act.
func unready(n node.Node, stable time.Duration, now time.Time, rules node.Settings) string {
	text := fmt.Sprintf("timed out waiting: node %s is %s", n.ID, n.State)
	if n.Reason != "" {
		text += fmt.Sprintf(" for %s (%s)", span(now.Sub(n.Since)), n.Reason)
	}
	if n.State == node.Ready {
		return text + fmt.Sprintf(", and that is less than %v without a drop", stable)
	}
	d := node.Owes(n, rules)
	text += fmt.Sprintf("; %s must act: %s", d.Who, d.What)
	if !d.By.IsZero() {
		text += ", by " + clock(d.By)
	}
	if d.Else != "" {
		text += "; otherwise " + d.Else
	}
	return text
}
