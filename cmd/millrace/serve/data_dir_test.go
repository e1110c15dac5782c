package serve

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"millrace/cmd/millrace/exit"
	"millrace/jet/embed"
	"millrace/jet/streams"
)

// A log is laid only into a directory of its own; the refusal says what to do.
func TestLaidIntoADirectoryOfOthers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "shared")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "else"), nil, 0o600), os.Chmod(dir, 0o777)); err != nil {
		t.Fatal(err)
	}
	err := Lay(dir, streams.Layout{}, embed.Stream{}, embed.Stream{})
	if f := (*exit.Fault)(nil); !errors.As(err, &f) || f.Code != exit.Refused || f.Hint == "" {
		t.Errorf("it says %v", err)
	}
}
