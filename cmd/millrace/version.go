package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"millrace/internal/cli/settings"
	"millrace/internal/cli/wording"
)

func (a *app) versionCommand() *cobra.Command {
	var o settings.Output
	c := &cobra.Command{Use: "version", Short: "Print the version, the commit and its date", Args: settings.Takes(0, 0, "")}
	o.Flags(c)
	c.RunE = func(*cobra.Command, []string) error {
		b := wording.ThisBuild()
		if b.Commit == "" {
			b.Binary = wording.Digest()
		}
		if o.JSON() {
			return a.WriteJSON(b)
		}
		commit := ", commit unknown, binary " + b.Binary
		if b.Commit != "" {
			commit = ", commit " + b.Commit[:min(12, len(b.Commit))] + " of " + b.Built
			if b.Modified {
				commit += " with changes"
			}
		}
		_, err := fmt.Fprintf(a.Out, "millrace %s%s; %s %s, nats-server %s\n", b.Version, commit, b.Go, b.Platform, b.Server)
		return err
	}
	return c
}
