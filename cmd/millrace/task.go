package main

import (
	"github.com/spf13/cobra"

	"millrace/internal/cli/history"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/task"
	"millrace/internal/cli/verb"
)

func (a *app) taskCommand() *cobra.Command {
	c := settings.Noun(&cobra.Command{
		Use: "task", Aliases: []string{"tasks", "t"},
		Short: "Tasks: look at them, wait for them, cancel and retry them",
		Long: `Tasks: look at them, wait for them, cancel and retry them.

Name a task by its id, or by six or more characters of its beginning or end, if a
millrace server answers and no other task has them.`,
		Example: `  millrace task ls --state active
  millrace task why ID
  millrace task logs -f ID
  millrace task retry $(millrace task ls --state error --since 1h --names)`,
	})
	for _, is := range task.Of(a.App).Tasks() {
		if is.Name() == "why" {
			history.OfIncident(a.App, a.inside).OfFile(is, c.Name(), is.Name())
		}
		c.AddCommand(is)
	}
	c.AddCommand(task.Of(a.App).Logs(), task.Of(a.App).Wait(), task.Of(a.App).OfTask(), verb.Of(a.App).Copy())
	return c
}
