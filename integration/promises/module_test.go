package promises

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The module can be published under a path of a host, a program of somebody else builds with it there,
// and one that only submits is small: it has no NATS server, no database and no flags in it.
func TestModuleElsewhere(t *testing.T) {
	t.Parallel()
	const path = "example.org/millrace"
	at, program := t.TempDir(), t.TempDir()
	do := func(dir string, command ...string) string {
		t.Helper()
		c := exec.CommandContext(t.Context(), command[0], command[1:]...)
		c.Dir = dir
		// With the same flags, what was built before need not be built again; and nothing is fetched.
		c.Env = append(os.Environ(), "GOFLAGS=-trimpath -mod=mod", "GOPROXY=off", "GOWORK=off")
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, out)
		}
		return string(out)
	}
	do("../..", ".ci/module", at, path)
	// The program is no part of this module, so its files are no Go files here. The module's own say what
	// `go mod tidy` would look up.
	for name, from := range map[string]string{
		"program.go": "testdata/program/main.go.txt", "program_test.go": "testdata/program/main_test.go.txt",
		"go.mod": filepath.Join(at, "go.mod"), "go.sum": filepath.Join(at, "go.sum"),
	} {
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(program, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	do(program, "go", "mod", "edit", "-module", "example.org/program", "-require", path+"@v0.0.0", "-replace", path+"="+at)
	do(program, "go", "build", "-o", "program", ".")
	do(program, "go", "test", ".")
	is, err := os.Stat(filepath.Join(program, "program"))
	if err != nil {
		t.Fatal(err)
	}
	const most = 15_000_000
	t.Logf("the program has %.1f MB", float64(is.Size())/1e6)
	if is.Size() > most {
		t.Errorf("the program has %d bytes, want at most %d", is.Size(), most)
	}
}
