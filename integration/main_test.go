package integration

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

var (
	long   = flag.Bool("long", false, "kill more processes, and run more tasks meanwhile")
	update = flag.Bool("update", false, "write what pages show of the program's output anew")
)

func TestMain(m *testing.M) {
	if standsIn() {
		os.Exit(standInMain(os.Args[1:]))
	}
	flag.Parse()
	// The tests spend their time waiting for deadlines, not on the processors.
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set("6")
	}
	code := m.Run()
	removeProgram()
	os.Exit(code)
}

// program is the path of the binary under test. It is built by the first test
// that asks, not before: only what tests look at decides whether `go test` may
// use the results of an earlier run.
var program = sync.OnceValues(func() (string, error) {
	root, err := filepath.Abs("..")
	if err != nil {
		return "", err
	}
	if err := lookAtSources(root); err != nil {
		return "", err
	}
	if programDir, err = os.MkdirTemp("", "millrace-integration-"); err != nil {
		return "", err
	}
	path := filepath.Join(programDir, "millrace")
	build := exec.Command("go", "build", "-o", path, "./cmd/millrace")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./cmd/millrace: %w\n%s", err, out)
	}
	return path, nil
})

var programDir string // set by program

func removeProgram() {
	if programDir != "" {
		_ = os.RemoveAll(programDir) // what is left is in the system's temporary folder
	}
}

// lookAtSources reads every folder of the module, by which a change of the
// program invalidates the cached results of its tests.
func lookAtSources(root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		}
		return nil
	})
}

// binary is program for a test.
func binary(t testing.TB) string {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
