package main

import (
	"github.com/spf13/cobra"

	"millrace/cmd/millrace/act"
	"millrace/cmd/millrace/follow"
	"millrace/cmd/millrace/incident"
	"millrace/cmd/millrace/look"
	"millrace/cmd/millrace/records"
	"millrace/cmd/millrace/submit"
	"millrace/cmd/millrace/typed"
	"millrace/telemetry/otlp"
)

func (a *app) taskCommand() *cobra.Command {
	c := typed.Noun(&cobra.Command{
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
	for _, is := range look.Of(a.App).Tasks(otlp.New) {
		if is.Name() == "why" {
			incident.Of(a.App, a.inside).OfFile(is, c.Name(), is.Name())
		}
		c.AddCommand(is)
	}
	c.AddCommand(act.Of(a.App).Tasks()...)
	c.AddCommand(follow.Of(a.App).Logs(), follow.Of(a.App).Wait(), records.Of(a.App).OfTask(), submit.Of(a.App).Copy())
	return c
}
