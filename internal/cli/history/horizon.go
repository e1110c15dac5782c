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
		Long: `Says where the log begins, how far it has forgotten what ended long ago, and which offer it does not pass.
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
	if h.Holds != nil {
		what := fmt.Sprintf("#%d, %s, since %s", h.Holds.Seq, h.Holds.What, wording.Moment(h.Holds.Since, now))
		if h.Holds.Task != "" {
			what += ", of task " + string(h.Holds.Task)
		}
		t.Field("does not pass", what)
	}
	for _, name := range []string{"keep_age", "keep_queues", "keep_tasks"} {
		t.Field(name, h.Settings[name])
	}
	return t
}
