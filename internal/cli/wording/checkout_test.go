package wording

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A build is told apart by what its checkout held when it was built, whatever became of that since.
func TestBuildAsksItsCheckout(t *testing.T) {
	root := t.TempDir()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	file := filepath.Join(root, "main.go")
	write := func(text string, at time.Time) {
		t.Helper()
		err := os.WriteFile(file, []byte(text), 0o600)
		if err == nil {
			err = os.Chtimes(file, at, at)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	git := func(at time.Time, args ...string) string {
		t.Helper()
		c := exec.CommandContext(t.Context(), "git", append([]string{"-C", root, "-c", "user.name=x", "-c", "user.email=x@y"}, args...)...)
		c.Env = append(os.Environ(), "GIT_COMMITTER_DATE="+at.Format(time.RFC3339), "GIT_AUTHOR_DATE="+at.Format(time.RFC3339), "GIT_CONFIG_GLOBAL=/dev/null")
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	commit := func(text string, at time.Time) string {
		t.Helper()
		write(text, at)
		git(at, "add", ".")
		git(at, "commit", "-qm", text)
		return git(at, "rev-parse", "HEAD")
	}
	git(noon, "init", "-q")
	first := commit("one", noon)
	second := commit("two", noon.Add(time.Hour))
	is := func(what string, at time.Time, want Build) {
		t.Helper()
		var b Build
		if b.ask(root, at); b != want {
			t.Errorf("%s: %+v, want %+v", what, b, want)
		}
	}
	v1, v2 := "v0.0.0-20260301120000-"+first[:12], "v0.0.0-20260301130000-"+second[:12]
	is("built before the second commit", noon.Add(time.Minute), Build{Version: v1, Commit: first, Built: "2026-03-01T12:00:00Z"})
	is("built after it", noon.Add(2*time.Hour), Build{Version: v2, Commit: second, Built: "2026-03-01T13:00:00Z"})
	write("three", noon.Add(3*time.Hour))
	is("changed since it was built", noon.Add(2*time.Hour), Build{Version: v2, Commit: second, Built: "2026-03-01T13:00:00Z"})
	is("changed before it was built", noon.Add(4*time.Hour), Build{Version: v2 + "+dirty", Commit: second, Built: "2026-03-01T13:00:00Z", Modified: true})
	is("run as it is now", time.Time{}, Build{Version: v2 + "+dirty", Commit: second, Built: "2026-03-01T13:00:00Z", Modified: true})
}
