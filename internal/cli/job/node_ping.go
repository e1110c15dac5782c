package job

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/service/client"
	"millrace/task/node"
)

func (a *Commands) nodePing() *cobra.Command {
	var o settings.Output
	patience := 2 * time.Second
	c := &cobra.Command{
		Use: "ping [NAME]...", Short: "Ask the processes of workers whether they are up",
		Long: `Asks the processes of nodes directly, over NATS, without the log or a millrace
server. Without a name it asks all nodes that are not offline by the log, which
needs a millrace server. It ends with 1 if one of them does not answer.`,
		Example: "  millrace node ping\n  millrace node ping crawler-7 --timeout 5s",
		Args:    settings.Takes(0, -1, "node"), ValidArgsFunction: a.CompleteNodes,
	}
	settings.Period(c.Flags(), &patience, "timeout", "how long a worker may take to answer ($NATS_TIMEOUT is that of the connection)")
	o.Flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		ids := make([]node.ID, len(args))
		for i, arg := range args {
			ids[i] = node.ID(arg)
			if err := ids[i].Validate(); err != nil {
				return term.Misuse(c, "%w", err)
			}
		}
		if patience <= 0 {
			return term.Misuse(c, "--timeout is %v, want more than 0", patience)
		}
		return a.Online(func(ctx context.Context, cl *client.Client, _ []string) error {
			if len(ids) == 0 {
				var err error
				if ids, err = a.expected(ctx, cl); err != nil {
					return err
				}
			}
			all := cl.PingAll(ctx, ids, patience)
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
	return page.Expected(), nil
}

// sayPinged prints the answers; the error says how many are missing.
func (a *Commands) sayPinged(all []client.Pinged, o *settings.Output) error {
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
			beat = wording.Age(p.LastBeat, a.Now()) + " ago"
		}
		t.Add(term.Plain(string(p.Node)), term.Plain(p.Took.Std().String()), term.Plain(serving), term.Plain(fmt.Sprintf("%d/%d", p.Running, p.Slots)), term.Plain(beat), term.Plain(p.Version))
	}
	t.Foot = []string{fmt.Sprintf("%d of %s answered", len(all)-missing, wording.Plural(len(all), "node"))}
	var err error
	if o.JSON() {
		err = a.WriteJSON(all)
	} else {
		err = a.Print(t)
	}
	if err == nil && missing > 0 {
		err = &term.Fault{Code: term.ExitError, Err: fmt.Errorf("%d of %s did not answer", missing, wording.Plural(len(all), "node")),
			Hint: term.Hint("`millrace node show NAME` says since when, and who must act next")}
	}
	return err
}
