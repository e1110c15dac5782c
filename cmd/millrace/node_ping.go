package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"millrace/client"
	"millrace/node"
	"millrace/task"
)

// pingsAtOnce is how many nodes are asked side by side.
const pingsAtOnce = 64

// pinged is how a node has answered.
type pinged struct {
	Node node.ID `json:"node"`
	*node.Pong
	// Took is how long that has taken; Error is why nothing came.
	Took  task.Duration `json:"took,omitempty"`
	Error string        `json:"error,omitempty"`
}

func (a *app) nodePing() *cobra.Command {
	var o output
	patience := 2 * time.Second
	c := &cobra.Command{
		Use: "ping [NAME]...", Short: "Ask workers themselves whether they are there",
		Long: `Asks the processes of nodes for themselves: over NATS, past the log and any millrace
server. Without a name it asks all that are not offline as far as the log knows, which
needs a millrace server. It ends with 1 if one of them does not answer.`,
		Example: "  millrace node ping\n  millrace node ping crawler-7 --timeout 5s",
		Args:    takes(0, -1, "node"), ValidArgsFunction: a.completeNodes,
	}
	c.Flags().DurationVar(&patience, "timeout", patience, "how long a worker may take to answer ($NATS_TIMEOUT is that of the connection)")
	o.flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		ids := make([]node.ID, len(args))
		for i, arg := range args {
			ids[i] = node.ID(arg)
			if err := ids[i].Validate(); err != nil {
				return misuse(c, "%w", err)
			}
		}
		if patience <= 0 {
			return misuse(c, "--timeout is %v, want more than 0", patience)
		}
		return a.online(func(ctx context.Context, cl *client.Client, _ []string) error {
			if len(ids) == 0 {
				var err error
				if ids, err = a.expected(ctx, cl); err != nil {
					return err
				}
			}
			all := pingAll(ctx, cl, ids, patience)
			if err := ctx.Err(); err != nil {
				return err
			}
			return a.sayPinged(all, &o)
		})(c, args)
	}
	return c
}

// expected lists the nodes of which a process should be there.
func (a *app) expected(ctx context.Context, cl *client.Client) ([]node.ID, error) {
	asking, cancel := a.asking(ctx)
	defer cancel()
	page, err := cl.Nodes(asking, client.NodeListRequest{Bare: true})
	if err != nil {
		return nil, err
	}
	var ids []node.ID
	for i := range page.Nodes {
		if n := &page.Nodes[i]; n.State != node.Offline && n.State != node.Retired {
			ids = append(ids, n.ID)
		}
	}
	return ids, nil
}

func pingAll(ctx context.Context, cl *client.Client, ids []node.ID, patience time.Duration) []pinged {
	all := make([]pinged, len(ids))
	var g errgroup.Group
	g.SetLimit(pingsAtOnce)
	for i, id := range ids {
		g.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			began := time.Now()
			pong, err := cl.Ping(ctx, id)
			if all[i].Node = id; err != nil {
				all[i].Error = err.Error()
				return nil
			}
			all[i].Pong, all[i].Took = &pong, task.Duration(time.Since(began).Round(time.Microsecond))
			return nil
		})
	}
	_ = g.Wait()
	return all
}

// sayPinged prints the answers; the error says how many are missing.
func (a *app) sayPinged(all []pinged, o *output) error {
	missing := 0
	t := table{header: []string{"NODE", "ANSWERED", "SERVING", "BUSY", "BEAT", "VERSION"}, spare: []string{"BEAT"}}
	for i := range all {
		p := &all[i]
		if p.Error != "" {
			missing++
			t.add(plain(string(p.Node)), plain("no: "+p.Error))
			continue
		}
		serving, beat := "no", "none"
		if p.Serving {
			serving = "yes"
		}
		if !p.LastBeat.IsZero() {
			beat = age(p.LastBeat, a.now()) + " ago"
		}
		t.add(plain(string(p.Node)), plain(p.Took.Std().String()), plain(serving), plain(fmt.Sprintf("%d/%d", p.Running, p.Slots)), plain(beat), plain(p.Version))
	}
	t.foot = []string{fmt.Sprintf("%d of %s answered", len(all)-missing, plural(len(all), "node"))}
	var err error
	if o.json() {
		err = a.writeJSON(all)
	} else {
		err = a.print(t)
	}
	if err == nil && missing > 0 {
		err = &fault{code: exitError, err: fmt.Errorf("%d of %s did not answer", missing, plural(len(all), "node")),
			hint: hint("`millrace node show NAME` says since when, and who must act next")}
	}
	return err
}
