//go:build linux

package process

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"millrace/internal/files"
)

// TestPlantedNote: a directory named in a note is removed only if this package made it.
func TestPlantedNote(t *testing.T) {
	work, victim := t.TempDir(), t.TempDir()
	made, err := keptDir(work)
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(work, keptPattern+"link")
	if err := os.Symlink(victim, link); err != nil {
		t.Fatal(err)
	}
	for _, fresh := range []string{victim, link, made.whole + "/../../" + filepath.Base(victim), made.path, "", work, made.whole} {
		removed := fresh == made.whole
		tasks := &Tasks{Node: "w2", Folder: filepath.Join(t.TempDir(), "spool"), Work: work}
		dir, err := tasks.ownFolder("X")
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(map[string]string{"fresh": fresh})
		if err != nil {
			t.Fatal(err)
		}
		note, old := filepath.Join(dir, noteFile), time.Now().Add(-10*24*time.Hour)
		if err := errors.Join(os.WriteFile(note, text, 0o600), os.Chtimes(note, old, old)); err != nil {
			t.Fatal(err)
		}
		if left, err := tasks.Left(); err != nil || len(left) > 0 {
			t.Errorf("%s: %v, %v", fresh, left, err)
		}
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s: the old attempt is still there: %v", fresh, err)
		}
		if _, err := os.Stat(made.path); removed != os.IsNotExist(err) {
			t.Errorf("%s: the directory of an attempt is removed: %v, want %v", fresh, err != nil, removed)
		}
		if _, err := os.Stat(victim); err != nil {
			t.Fatalf("%s: it was removed: %v", fresh, err)
		}
	}
}

// TestForeignFolder: nothing is read from a folder in which other users may have written.
func TestForeignFolder(t *testing.T) {
	tasks := &Tasks{Node: "w2", Folder: filepath.Join(t.TempDir(), "spool"), Work: t.TempDir()}
	dir, err := tasks.ownFolder("X")
	if err != nil {
		t.Fatal(err)
	}
	for _, open := range []string{tasks.Folder, tasks.folderOf()} {
		if err := os.Chmod(open, 0o777); err != nil {
			t.Fatal(err)
		}
		if _, err := tasks.Left(); !errors.Is(err, files.ErrForeign) {
			t.Errorf("%s: %v, want ErrForeign", open, err)
		}
		if err := os.Chmod(open, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
	}
}
