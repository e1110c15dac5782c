package testkit

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// Update asks for files anew that show what the program prints, or that follow from its types.
var Update = flag.Bool("update", false, "write anew the files that show what the program prints or that follow from its types")

// Golden files show local times. Setting time.Local would race with goroutines that imported
// packages have started.
func init() { _ = os.Setenv("TZ", "UTC") }

// table is what a command prints: within a number of columns, 0 for any, and with colours.
type table[T any] interface {
	*T
	Write(w io.Writer, bound int, colours bool) error
}

// Table compares a table with testdata/golden/<name>.txt; go test -update writes it.
func Table[T any, P table[T]](t *testing.T, name string, got T, bound int, colours bool) {
	t.Helper()
	var b bytes.Buffer
	if err := P(&got).Write(&b, bound, colours); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", "golden", name+".txt")
	if *Update {
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
