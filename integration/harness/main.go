package harness

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"millrace/internal/testkit"
)

// Long asks for more than the usual.
var Long = testkit.Long

// Cases returns the files of a test's cases that run: all with -long, else those with the quick
// names. A quick name that is no file's fails the test, so that a renamed case is not lost.
func Cases(t testing.TB, files []string, quick ...string) []string {
	t.Helper()
	var chosen []string
	for _, name := range quick {
		at := slices.IndexFunc(files, func(file string) bool { return filepath.Base(file) == name })
		if at < 0 {
			t.Fatalf("no case is %s", name)
		}
		chosen = append(chosen, files[at])
	}
	if *Long {
		return files
	}
	return chosen
}

// Main runs the tests of a package.
func Main(m *testing.M) int {
	// More would wait for each other's processes, and ask them more often meanwhile.
	testkit.AtOnce(2 * runtime.NumCPU())
	defer removeProgram()
	return testkit.Thrifty(m).Run()
}

// Program is the path of the binary under test. The first test that asks builds it, and no code
// before the tests: `go test` decides by the files that tests read whether it may reuse the results
// of an earlier run.
var Program = sync.OnceValues(func() (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	if err := lookAtSources(root); err != nil {
		return "", err
	}
	if ProgramDir, err = os.MkdirTemp("", "millrace-integration-"); err != nil {
		return "", err
	}
	return build(root, "millrace")
})

// tools builds beside it a program that it starts in its place.
var tools = map[string]func() error{"bench": tool("bench"), "chaos": tool("chaos")}

func tool(name string) func() error {
	return sync.OnceValue(func() error {
		root, err := Root()
		if err == nil {
			_, err = build(root, "millrace-"+name)
		}
		return err
	})
}

// build builds a program into ProgramDir.
func build(root, name string) (path string, err error) {
	path = filepath.Join(ProgramDir, name)
	// go run caches what it has linked, so only the first of several packages links it.
	run := exec.Command("go", "run", "-exec", "cp", "./cmd/"+name, path)
	run.Dir = root
	if out, err := run.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build ./cmd/%s: %w\n%s", name, err, out)
	}
	return path, nil
}

var ProgramDir string // set by program

// Root is the folder of the module, above that of the package whose tests run.
func Root() (string, error) {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, err = os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		} else if errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir) {
			err = nil
		}
	}
	return "", err
}

func removeProgram() {
	if ProgramDir != "" {
		_ = os.RemoveAll(ProgramDir) // a leftover stays in the system's temporary folder
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

// Binary is program for a test.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := Program()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Tools has a command of millrace find its program, for a test: "bench" or "chaos".
func Tools(t testing.TB, command string) {
	t.Helper()
	Binary(t) // makes the folder
	if err := tools[command](); err != nil {
		t.Fatal(err)
	}
}
