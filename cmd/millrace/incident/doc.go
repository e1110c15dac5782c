// Package incident holds the commands about incident files: a span of the log that is carried elsewhere.
package incident

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"millrace/cmd/millrace/reach"
	"millrace/cmd/millrace/typed"
)

// Commands are those of this room, of one run.
type Commands struct {
	*reach.App
	// run is a run of the whole command that looks into an incident file; it returns the exit code.
	run func(ctx context.Context, inside *reach.Inside, args []string, in io.Reader, out, errs io.Writer) int
}

// Of are the commands of a run; another one looks into a file by way of run.
func Of(a *reach.App, run func(ctx context.Context, inside *reach.Inside, args []string, in io.Reader, out, errs io.Writer) int) *Commands {
	return &Commands{a, run}
}

// Command is millrace incident.
func (a *Commands) Command() *cobra.Command {
	c := typed.Noun(&cobra.Command{
		Use: "incident", Aliases: []string{"incidents"},
		Short: "Incident files: a span of the log to study elsewhere",
	})
	c.AddCommand(a.export(), a.show(), a.open(), a.importCommand())
	return c
}
