package serve

import (
	"os"

	"github.com/spf13/cobra"

	"millrace/internal/cli/settings"
	"millrace/worker/process"
)

// shimName is the hidden command that keeps a process beside its worker.
const shimName = "shim"

// ShimCommand is the command that this program starts of itself, to keep a process beside its
// worker.
func ShimCommand() *cobra.Command {
	return &cobra.Command{
		Use: shimName, Hidden: true, Args: settings.Takes(0, 0, ""),
		RunE: func(*cobra.Command, []string) error { return process.ShimMain(os.Stdin, os.Stdout) },
	}
}
