package verb

import (
	"context"

	"github.com/spf13/cobra"

	"millrace/internal/cli/settings"
	"millrace/internal/cli/task"
	"millrace/service/client"
	"millrace/service/notices"
	of "millrace/task"
)

// Notify is millrace notify.
func (a *Commands) Notify() *cobra.Command {
	c := &cobra.Command{Use: "notify", Short: "Try whether people are told"}
	var o settings.Output
	test := &cobra.Command{
		Use: "test TARGET", Short: "Send a test notice to a target, and wait for it",
		Long: `Sends a notice to a target of the file that the setting notify of the servers names, and waits until it is
sent. If it cannot be sent, Ctrl-C ends the wait, and the servers try on for a day; "millrace task why ID" says why.`,
		Example: "  millrace notify test oncall",
		Args:    settings.Takes(1, 1, "target"),
	}
	o.Flags(test)
	test.RunE = a.Online(func(ctx context.Context, cl *client.Client, args []string) error {
		s, err := notices.Submission("", cl.Now(), &notices.Notice{To: args[0], Kind: notices.Test, About: "from the command line"})
		if err != nil {
			return err
		}
		r, err := cl.Submit(ctx, s)
		if err != nil {
			return err
		}
		return task.Of(a.App).WaitAll(ctx, cl, []of.ID{r.ID}, o.JSON())
	})
	c.AddCommand(test)
	return c
}
