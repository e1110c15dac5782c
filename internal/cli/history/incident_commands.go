package history

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
)

// IncidentCommands are the commands of this package, for one run.
type IncidentCommands struct {
	*connect.App
	// run runs the whole command line against an incident file; it returns the exit code.
	run func(ctx context.Context, inside *connect.Inside, args []string, in io.Reader, out, errs io.Writer) int
}

// OfIncident returns the commands of a run; run runs the command line against a file.
func OfIncident(a *connect.App, run func(ctx context.Context, inside *connect.Inside, args []string, in io.Reader, out, errs io.Writer) int) *IncidentCommands {
	return &IncidentCommands{a, run}
}

// IncidentCommand is millrace incident.
func (a *IncidentCommands) IncidentCommand() *cobra.Command {
	c := settings.Noun(&cobra.Command{
		Use: "incident", Aliases: []string{"incidents"},
		Short: "Incident files: a span of the log to study elsewhere",
	})
	c.AddCommand(a.export(), a.show(), a.open(), a.importCommand())
	return c
}
