// Package incident holds the commands for incident files: files with a span of the log, to be taken
// elsewhere.
package incident

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"millrace/cmd/millrace/reach"
	"millrace/cmd/millrace/typed"
)

// Commands are the commands of this package, for one run.
type Commands struct {
	*reach.App
	// run runs the whole command line against an incident file; it returns the exit code.
	run func(ctx context.Context, inside *reach.Inside, args []string, in io.Reader, out, errs io.Writer) int
}

// Of returns the commands of a run; run runs the command line against a file.
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
