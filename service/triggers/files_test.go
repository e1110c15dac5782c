package triggers

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"millrace/task/job"
	"millrace/task/param"
)

// A version of a file makes one task for each job and node, however often it is found; the next version another.
func TestFound(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	of := job.Job{Name: "load"}
	of.Params.Declared = []param.Param{{Name: "file"}}
	is := file{"/in/a.csv", 12, noon, noon.Add(time.Hour), 77}
	s, err := found(&of, &is, "n1")
	if err != nil || string(s.Params["file"]) != `"/in/a.csv"` || len(s.Params) != 1 || s.Nodes[0] != "n1" {
		t.Errorf("made is %+v (%v)", s, err)
	}
	if want := "file /in/a.csv on node n1, 12 bytes of 2026-03-01T12:00:00Z, number 77"; s.Origin.MadeBy != want {
		t.Errorf("it is made by %q, want %q", s.Origin.MadeBy, want)
	}
	for name, c := range map[string]struct {
		change func(*file, *job.Job)
		same   bool
	}{
		"again":             {func(*file, *job.Job) {}, true},
		"other rights":      {func(f *file, _ *job.Job) { f.changed = f.changed.Add(time.Hour) }, true},
		"another job":       {func(_ *file, j *job.Job) { j.Name = "look" }, false},
		"longer":            {func(f *file, _ *job.Job) { f.size++ }, false},
		"written later":     {func(f *file, _ *job.Job) { f.modified = f.modified.Add(time.Nanosecond) }, false},
		"another was moved": {func(f *file, _ *job.Job) { f.number++ }, false},
	} {
		f, j := is, of
		c.change(&f, &j)
		if other, err := found(&j, &f, "n1"); err != nil || (other.ID == s.ID) != c.same {
			t.Errorf("%s: task %s (%v), beside %s", name, other.ID, err, s.ID)
		}
	}
	if other, _ := found(&of, &is, "n2"); other.ID == s.ID {
		t.Error("a file of another node is the same")
	}
}

func TestVersionOf(t *testing.T) {
	dir := t.TempDir()
	at := filepath.Join(dir, "a.csv")
	if err := os.WriteFile(at, []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	first, err := versionOf(at)
	if err != nil || first.size != 1 {
		t.Fatalf("the file is %+v (%v)", first, err)
	}
	if err := os.Symlink(at, filepath.Join(dir, "link.csv")); err != nil {
		t.Fatal(err)
	}
	for _, none := range []string{dir, filepath.Join(dir, "link.csv")} {
		if is, err := versionOf(none); is != nil || err != nil {
			t.Errorf("%s is the file %+v (%v)", none, is, err)
		}
	}
	if err := os.WriteFile(at+".part", []byte("2"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(at+".part", at); err != nil {
		t.Fatal(err)
	}
	if second, err := versionOf(at); err != nil || second.same(first) || first.same(second) {
		t.Errorf("what was moved there is %+v (%v), as before", second, err)
	}
}
