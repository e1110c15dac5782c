package task

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"millrace/internal/cli/connect"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/service/client"
)

// Attention is millrace attention.
func (a *Commands) Attention() *cobra.Command {
	return (&connect.Reading[client.Attention]{
		Use: "attention", Aliases: []string{"todo"}, Short: "Say what needs you, and what failed within a day; needs a millrace server",
		Long: `Lists what goes on only when a person acts: approvals, tasks whose deadline has passed, silent nodes, open
breakers, queues that are paused or that no worker serves while tasks wait in them, planned runs without a task,
dead letters, a log that cannot forget. The last column is what to do. Below stand the tasks without a parent that
failed within a day, those of one cause in one row, those of schedules first.`,
		Watch: true,
		Request: func(ctx context.Context, cl *client.Client, _ string, q connect.Question) (client.Attention, error) {
			return cl.Attention(ctx, q.At, q.AtLeast)
		},
		Table: func(is client.Attention, s *connect.Sight) term.Table {
			t := term.List(append(is.Matters, wording.Failures(is.Failures)...), wording.MatterColumns(s.Now())...)
			switch {
			case is.All() == 0 && s.Past == nil:
				t.Foot = append(t.Foot, "Nothing needs you.")
			case is.More > 0:
				t.Foot = append(t.Foot, fmt.Sprintf("%d more need you.", is.More))
			}
			if is.Partly {
				t.Foot = append(t.Foot, "Of the failures only the latest are counted.")
			}
			return t
		},
	}).Command(a.App)
}
