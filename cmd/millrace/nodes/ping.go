package nodes

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"millrace/client"
	"millrace/cmd/millrace/exit"
	"millrace/cmd/millrace/term"
	"millrace/cmd/millrace/told"
	"millrace/cmd/millrace/typed"
	"millrace/node"
	"millrace/task/value"
)

// pingsAtOnce is how many nodes are asked concurrently.
const pingsAtOnce = 64

// pinged is the answer of a node.
type pinged struct {
	Node node.ID `json:"node"`
	*node.Pong
	// Took is how long the answer took; Error says why there is none.
	Took  value.Duration `json:"took,omitempty"`
	Error string         `json:"error,omitempty"`
}

func (a *Commands) nodePing() *cobra.Command {
	var o typed.Output
	patience := 2 * time.Second
	c := &cobra.Command{
		Use: "ping [NAME]...", Short: "Ask the processes of workers whether they are up",
		Long: `Asks the processes of nodes directly, over NATS, without the log or a millrace
server. Without a name it asks all nodes that are not offline by the log, which
needs a millrace server. It ends with 1 if one of them does not answer.`,
		Example: "  millrace node ping\n  millrace node ping crawler-7 --timeout 5s",
		Args:    typed.Takes(0, -1, "node"), ValidArgsFunction: a.CompleteNodes,
	}
	c.Flags().DurationVar(&patience, "timeout", patience, "how long a worker may take to answer ($NATS_TIMEOUT is that of the connection)")
	o.Flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		ids := make([]node.ID, len(args))
		for i, arg := range args {
			ids[i] = node.ID(arg)
			if err := ids[i].Validate(); err != nil {
				return exit.Misuse(c, "%w", err)
			}
		}
		if patience <= 0 {
			return exit.Misuse(c, "--timeout is %v, want more than 0", patience)
		}
		return a.Online(func(ctx context.Context, cl *client.Client, _ []string) error {
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

// expected lists the nodes that should have a process.
func (a *Commands) expected(ctx context.Context, cl *client.Client) ([]node.ID, error) {
	asking, cancel := a.Asking(ctx)
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
			all[i].Pong, all[i].Took = &pong, value.Duration(time.Since(began).Round(time.Microsecond))
			return nil
		})
	}
	_ = g.Wait()
	return all
}

// sayPinged prints the answers; the error says how many are missing.
func (a *Commands) sayPinged(all []pinged, o *typed.Output) error {
	missing := 0
	t := term.Table{Header: []string{"NODE", "ANSWERED", "SERVING", "BUSY", "BEAT", "VERSION"}, Spare: []string{"BEAT"}}
	for i := range all {
		p := &all[i]
		if p.Error != "" {
			missing++
			t.Add(term.Plain(string(p.Node)), term.Plain("no: "+p.Error))
			continue
		}
		serving, beat := "no", "none"
		if p.Serving {
			serving = "yes"
		}
		if !p.LastBeat.IsZero() {
			beat = told.Age(p.LastBeat, a.Now()) + " ago"
		}
		t.Add(term.Plain(string(p.Node)), term.Plain(p.Took.Std().String()), term.Plain(serving), term.Plain(fmt.Sprintf("%d/%d", p.Running, p.Slots)), term.Plain(beat), term.Plain(p.Version))
	}
	t.Foot = []string{fmt.Sprintf("%d of %s answered", len(all)-missing, told.Plural(len(all), "node"))}
	var err error
	if o.JSON() {
		err = a.WriteJSON(all)
	} else {
		err = a.Print(t)
	}
	if err == nil && missing > 0 {
		err = &exit.Fault{Code: exit.Error, Err: fmt.Errorf("%d of %s did not answer", missing, told.Plural(len(all), "node")),
			Hint: exit.Hint("`millrace node show NAME` says since when, and who must act next")}
	}
	return err
}
