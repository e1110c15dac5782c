package told

import (
	"runtime"
	"runtime/debug"
)

// Build says what this program was built from.
type Build struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	// Modified tells whether the sources differed from the commit.
	Modified bool   `json:"modified,omitempty"`
	Built    string `json:"commit_time,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	// Server is the version of the embedded NATS server.
	Server string `json:"nats_server"`
}

// ThisBuild reads what the Go tool wrote into the program.
func ThisBuild() Build {
	b := Build{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Server: "unknown"}
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
