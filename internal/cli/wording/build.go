package wording

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
)

// Build says what this program was built from.
type Build struct {
	// Version is that of the module or, between releases, one that names the commit and ends in
	// +dirty if the sources differed from it. Without a commit it is that of the next release, with
	// "-dev".
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	// Modified tells whether the sources differed from the commit.
	Modified bool   `json:"modified,omitempty"`
	Built    string `json:"commit_time,omitempty"`
	// Binary is [Digest] where no commit is known and somebody asks.
	Binary   string `json:"binary,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	// Server is the version of the embedded NATS server.
	Server string `json:"nats_server"`
}

// unreleased is the version of a build of which no commit is known: that of the next release in
// CHANGELOG.md.
const unreleased = "v0.1.0-dev"

// ThisBuild says what this program was built from, by what the Go tool wrote into it.
var ThisBuild = sync.OnceValue(func() Build {
	b := Build{Version: unreleased, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Server: "unknown"}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
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
})

// Digest is the beginning of the SHA-256 of this program's file, which tells builds apart of which
// no commit is known; "" if the file cannot be read.
func Digest() string {
	name, err := os.Executable()
	if err != nil {
		return ""
	}
	f, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}
