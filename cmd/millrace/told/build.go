package told

import (
	"runtime"
	"runtime/debug"
	"sync"
)

// Build says what this program was built from.
type Build struct {
	// Version is that of the module or, between releases, one that names the commit and ends in
	// +dirty if the sources differed from it. "(devel)" if nothing is known.
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

// ThisBuild says what this program was built from: by what the Go tool wrote into it, or else by the
// checkout that it was built from.
var ThisBuild = sync.OnceValue(func() Build {
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
	// Tests are no such program.
	if b.Commit == "" && b.Version == "(devel)" && info.Path == "millrace/cmd/millrace" {
		checkout(&b)
	}
	return b
})
