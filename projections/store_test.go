package projections

import (
	"database/sql"
	"millrace/projections/view"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOpenDiscards(t *testing.T) {
	records := noops(t, 50, 10)
	for _, tt := range []struct {
		name   string
		spoil  func(t *testing.T, path string)
		notice string
		kept   bool
	}{
		{"nothing", func(*testing.T, string) {}, "", false},
		{"no file", func(t *testing.T, path string) { remove(t, path) }, "", false},
		{"empty file", func(t *testing.T, path string) { overwrite(t, path, nil) }, "", false},
		{"garbage", func(t *testing.T, path string) { overwrite(t, path, []byte(strings.Repeat("garbage ", 1000))) }, "damaged", true},
		{"another version", func(t *testing.T, path string) { pragma(t, path, "user_version = 99") }, "another version", false},
		{"another program's", func(t *testing.T, path string) { pragma(t, path, "application_id = 99") }, "no read model", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "dir with ?#% signs")
			s, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			project(t, s, 10, records, all)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			tt.spoil(t, path)

			s = open(t, path)
			if notices := strings.Join(s.Notices(), "\n"); !strings.Contains(notices, tt.notice) || (notices == "") != (tt.notice == "") {
				t.Errorf("notices %q, want %q", notices, tt.notice)
			}
			if _, err := os.Stat(path + ".discarded"); (err == nil) != tt.kept {
				t.Errorf("the former file: %v, kept %v", err, tt.kept)
			}
			want := uint64(0)
			if tt.name == "nothing" {
				want = uint64(len(records))
			}
			if s.Reached() != want {
				t.Errorf("reached %d, want %d", s.Reached(), want)
			}
			project(t, s, 10, records, all)
			if n := len(stored(t, s)); n != 50 {
				t.Errorf("%d rows, want 50", n)
			}
		})
	}
}

// A file that turns out damaged during use is rebuilt without a restart.
func TestDamageUnderWay(t *testing.T) {
	records := noops(t, 500, 10)
	path := filepath.Join(t.TempDir(), "read.db")
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	project(t, s, 10, records[:1200], all)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const pageSize = 4096
	for at := 20 * pageSize; at < len(file); at++ { // behind the small tables
		file[at] = 0xa5
	}
	overwrite(t, path, file)

	s = open(t, path)
	if s.Reached() != 1200 {
		t.Fatalf("reached %d", s.Reached())
	}
	if _, err := s.tasks(t.Context(), view.Filter{Limit: view.MaxLimit}); err == nil {
		t.Fatal("a damaged file is read")
	}
	stop := start(t, &Projector{Log: &recorded{records: records}, Store: s})
	defer stop()
	await(t, s, uint64(len(records)))
	if n := len(stored(t, s)); n != 500 {
		t.Errorf("%d rows, want 500", n)
	}
	if len(s.Notices()) != 1 {
		t.Errorf("notices %v", s.Notices())
	}
}

func TestOpenFails(t *testing.T) {
	if s, err := Open(filepath.Join(t.TempDir(), "no such dir", "read.db")); err == nil {
		t.Error("opened in no directory", s.Close())
	}
	if s, err := Open(t.TempDir()); err == nil {
		t.Error("opened a directory", s.Close())
	}
}

func TestTemporaryFileGoes(t *testing.T) {
	s, err := Open(":memory:")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
	if _, err := os.Stat(s.dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", s.dir, err)
	}
}

func overwrite(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func pragma(t *testing.T, path, text string) {
	t.Helper()
	s := &Store{path: path}
	db, err := sql.Open("sqlite", s.dsn("mode=rw"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("PRAGMA " + text); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestFileIsItsOwnersAlone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "read.db")
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode != 0o600 {
			t.Errorf("%s has mode %o, want 600", filepath.Base(name), mode)
		}
	}
}
