package history

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/service/client"
)

// Horizon is millrace horizon.
func (a *Commands) Horizon() *cobra.Command {
	var o settings.Output
	c := &cobra.Command{
		Use:   "horizon",
		Short: "Say what the log keeps, and what holds it back; needs a millrace server",
		Long: `Says where the log begins, how far it has forgotten what ended long ago, and what holds it back.
The settings keep_age, keep_queues and keep_tasks, and "keep" in jobs, say how long what has ended stays.`,
		Args: settings.Takes(0, 0, ""),
	}
	o.Flags(c)
	c.RunE = a.Online(func(ctx context.Context, cl *client.Client, _ []string) error {
		return a.App.Show(ctx, false, &o, func(ctx context.Context) (connect.Frame, error) {
			h, err := cl.Horizon(ctx)
			return connect.Frame{JSON: h, Table: horizonTable(&h, cl)}, err
		})
	})
	return c
}

func horizonTable(h *client.Horizon, cl *client.Client) term.Table {
	t, now := term.Table{Title: "What the log keeps"}, cl.Now()
	t.Field("from", fmt.Sprintf("#%d, %s", h.First, wording.Moment(h.Oldest, now)))
	t.Field("to", fmt.Sprintf("#%d", h.Last))
	if h.Step != "" {
		t.Field("horizon", fmt.Sprintf("#%d, %s, %s", h.Below, h.Step, wording.Moment(h.Since, now)))
		t.Field("because", h.Why)
		t.Field("carried", wording.Plural(h.Carried, "chain"))
	}
	hold := func(name string, by *client.HorizonHold) {
		if by == nil {
			return
		}
		what := fmt.Sprintf("#%d, %s, since %s", by.Seq, term.Printable(by.What), wording.Moment(by.Since, now))
		if by.Task != "" {
			what += ", of task " + string(by.Task)
		}
		t.Field(name, what)
	}
	hold("held back at", h.Held)
	if h.Held == nil || h.Held.By != "offer" {
		hold("does not pass", h.Holds)
	}
	if !h.Looked.IsZero() {
		t.Field("looked", wording.Moment(h.Looked, now))
	}
	for _, name := range []string{"keep_age", "keep_queues", "keep_tasks"} {
		t.Field(name, h.Settings[name])
	}
	return t
}
