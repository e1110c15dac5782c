package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"millrace/cmd/millrace/typed"
)

// build says what this program was built from.
type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	// Modified is whether the sources differed from the commit.
	Modified bool   `json:"modified,omitempty"`
	Built    string `json:"commit_time,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	// Server is the version of the embedded NATS server.
	Server string `json:"nats_server"`
}

// thisBuild reads what the Go tool wrote into the program.
func thisBuild() build {
	b := build{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Server: "unknown"}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		case "vcs.time":
			b.Built = s.Value
		}
	}
	for _, m := range info.Deps {
		if m.Path == "github.com/nats-io/nats-server/v2" {
			b.Server = m.Version
		}
	}
	return b
}

func (a *app) versionCommand() *cobra.Command {
	var o typed.Output
	c := &cobra.Command{Use: "version", Short: "Print the version", Args: typed.Takes(0, 0, "")}
	o.Flags(c)
	c.RunE = func(*cobra.Command, []string) error {
		b := thisBuild()
		if o.JSON() {
			return a.WriteJSON(b)
		}
		commit := ""
		if b.Commit != "" {
			commit = " " + b.Commit[:min(12, len(b.Commit))]
			if b.Modified {
				commit += " (modified)"
			}
		}
		_, err := fmt.Fprintf(a.Out, "millrace %s%s, %s %s, nats-server %s\n", b.Version, commit, b.Go, b.Platform, b.Server)
		return err
	}
	return c
}
