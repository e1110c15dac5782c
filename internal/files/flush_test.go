//go:build unix

package files

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// A loss of power at any moment leaves the old file or the new one: the text is on the disk before
// the file has its name, and the name is before Write returns.
func TestWriteOutlastsPower(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "secret")
	var was []string // what the file held at each flush, and of what that was
	flush = func(f *os.File) error {
		info, err := f.Stat()
		if err != nil {
			t.Error(err)
		}
		what := "text"
		if info.IsDir() {
			what = "folder"
		}
		there, _ := os.ReadFile(name)
		was = append(was, what+" "+string(there))
		return f.Sync()
	}
	t.Cleanup(func() { flush = (*os.File).Sync })
	for _, text := range []string{"one", "two"} {
		if err := Write(name, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"text ", "folder one", "text one", "folder two"}; !slices.Equal(was, want) {
		t.Errorf("flushed %q, want %q", was, want)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".new-*")); err != nil || len(left) > 0 {
		t.Errorf("%v, %v are left", left, err)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v, want mode 0600", info, err)
	}
}

// What a process has left unfinished goes once nobody can be writing it any more; nothing else does.
func TestPutRemovesWhatWasAbandoned(t *testing.T) {
	dir := t.TempDir()
	want := []string{".new-young", "text", "written"}
	for name, age := range map[string]time.Duration{".new-old": 2 * abandoned, ".new-young": abandoned / 2, "text": 2 * abandoned} {
		name = filepath.Join(dir, name)
		at := time.Now().Add(-age)
		if err := errors.Join(os.WriteFile(name, nil, 0o600), os.Chtimes(name, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	if err := Write(filepath.Join(dir, "written"), nil); err != nil {
		t.Fatal(err)
	}
	var left []string
	there, err := os.ReadDir(dir)
	for _, e := range there {
		left = append(left, e.Name())
	}
	if err != nil || !slices.Equal(left, want) {
		t.Errorf("%v: there are %q, want %q", err, left, want)
	}
}
