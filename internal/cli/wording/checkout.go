package wording

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// The Go tool writes the commit into what `go build` and `go install` make, but not with `go run`, with
// -buildvcs=false or in a work tree beside its repository. There the checkout with the sources is
// asked what it held when this program was built.

// askFor is how long git may take.
const askFor = 2 * time.Second

// checkout completes b from the checkout that this program was built from, if it is on this machine.
func checkout(b *Build) {
	_, file, _, ok := runtime.Caller(0)
	program, err := os.Executable()
	if !ok || err != nil || !filepath.IsAbs(file) { // built with -trimpath
		return
	}
	built, err := os.Stat(program)
	if err != nil {
		return
	}
	at := built.ModTime()
	if strings.Contains(filepath.ToSlash(program), "/go-build") { // by `go run`, of the sources of now
		at = time.Time{}
	}
	b.ask(filepath.Join(filepath.Dir(file), "../../.."), at)
}

// ask completes b from what a checkout held at a time; the zero time is now.
func (b *Build) ask(root string, at time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), askFor)
	defer cancel()
	ask := func(args ...string) (string, bool) {
		git := exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...)
		git.Env = append(os.Environ(), "GIT_OPTIONAL_LOCKS=0", "LC_ALL=C")
		out, err := git.Output()
		return strings.TrimSpace(string(out)), err == nil
	}
	head := "HEAD"
	if !at.IsZero() {
		head += "@{" + at.UTC().Format(time.RFC3339) + "}" // its log knows it
	}
	said, ok := ask("show", "-s", "--format=%H %cI", head)
	commit, when, _ := strings.Cut(said, " ")
	made, err := time.Parse(time.RFC3339, when)
	if !ok || err != nil {
		return
	}
	b.Commit, b.Built = commit, made.UTC().Format(time.RFC3339)
	changed, ok := ask("diff", "HEAD", "--name-only")
	b.Modified = !ok
	for name := range strings.Lines(changed) {
		is, err := os.Stat(filepath.Join(root, strings.TrimSpace(name)))
		b.Modified = b.Modified || err != nil || at.IsZero() || !is.ModTime().After(at) // changed before it was built
	}
	b.Version = "v0.0.0-" + made.UTC().Format("20060102150405") + "-" + commit[:min(12, len(commit))] // as the Go tool names it
	if b.Modified {
		b.Version += "+dirty"
	}
}
