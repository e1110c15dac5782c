package change

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"millrace/internal/cli/exit"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/wording"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/placement"
)

func (a *Commands) taskEdit() *cobra.Command {
	var o settings.Output
	var priority int
	var reason string
	c := &cobra.Command{
		Use: "edit ID...", Short: "Change the priority of waiting tasks",
		Args: settings.Takes(1, -1, "task id"), ValidArgsFunction: a.CompleteTasks,
	}
	c.Flags().IntVar(&priority, "priority", 0, fmt.Sprintf("%d to %d, the larger the more urgent", placement.MinPriority, placement.MaxPriority))
	c.Flags().StringVar(&reason, "reason", "asked for on the command line", "why, in `words`; the log keeps them")
	o.Flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := placement.ValidPriority(priority); err != nil {
			return exit.Misuse(c, "--priority: %w", err)
		}
		return a.WithTasks(func(ctx context.Context, cl *client.Client, ids []task.ID) error {
			done := []task.Task{}
			var errs []error
			for _, id := range ids {
				asking, cancel := a.Asking(ctx)
				t, err := cl.Prioritize(asking, id, priority, reason)
				cancel()
				if err != nil {
					errs = append(errs, err)
					continue
				}
				if done = append(done, t); !o.JSON() {
					if _, err := fmt.Fprintf(a.Out, "%s %s %s\n", t.ID, t.State, wording.WorkRoute(&t.Work)); err != nil {
						return err
					}
				}
			}
			if o.JSON() {
				return exit.First(exit.All(errs), a.WriteJSON(done))
			}
			return exit.All(errs)
		})(c, args)
	}
	return c
}
