// Package clitest compares tables with files and looks at flags, for tests of the command line.
package clitest

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"millrace/internal/cli/term"
)

var update = flag.Bool("update", false, "write the golden files anew")

// Golden files show local times. Setting time.Local would race with goroutines that imported
// packages have started.
func init() { _ = os.Setenv("TZ", "UTC") }

// Table compares a table with testdata/golden/<name>.txt; go test -update writes it.
func Table(t *testing.T, name string, got term.Table, bound int, colours bool) {
	t.Helper()
	var b bytes.Buffer
	if err := got.Write(&b, bound, colours); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", "golden", name+".txt")
	if *update {
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), want) {
		t.Errorf("%s is\n%s\nwant\n%s", name, b.Bytes(), want)
	}
}
