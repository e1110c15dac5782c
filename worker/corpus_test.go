package worker

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"millrace/events/logtest"
	"millrace/internal/testkit"
)

// A worker hands over the spools of every earlier version.
func TestSpoolCorpus(t *testing.T) {
	testkit.Test(t, testkit.Form{
		Dir: "testdata/corpus/spool", Version: spoolVersion, Today: map[string][]byte{"full": spooled(t, everyEntry(t))}, Unknown: testkit.Dropped,
		Next: func(written []byte, version int) []byte {
			return bytes.Replace(written, []byte(`{"task"`), fmt.Appendf(nil, `{"v":%d,"task"`, version), 1)
		},
		Again: func(written []byte) ([]byte, error) {
			name := filepath.Join(t.TempDir(), "left")
			if err := os.WriteFile(name, written, 0o600); err != nil {
				return nil, err
			}
			p, k, err := openSpool(name)
			if err != nil {
				return nil, err
			}
			defer p.close(false)
			entries := []entry{{Task: &k}}
			for {
				e, after, err := p.next()
				if errors.Is(err, io.EOF) {
					return spooled(t, entries), nil
				}
				if err != nil {
					return nil, err
				}
				if entries = append(entries, e); p.mark(after) != nil {
					return nil, errors.New("cannot mark")
				}
			}
		},
	})
}

// everyEntry has an entry of each kind with every field. The task comes first.
func everyEntry(t *testing.T) []entry {
	t.Helper()
	var e entry
	logtest.Fill(t, &e, logtest.Samples...)
	all := []entry{{Task: e.Task}, {Lines: e.Lines}, {Records: e.Records, Word: e.Word}, {Dropped: e.Dropped}}
	for _, r := range []report{{Finish: e.Report.Finish}, {Fail: e.Report.Fail}, {Stopped: e.Report.Stopped}, {Release: e.Report.Release}, {Lose: e.Report.Lose}} {
		if back := reportOf(r.command()); back == nil {
			t.Errorf("%+v is no report", r)
		}
		all = append(all, entry{Report: &r})
	}
	return all
}

// spooled is a file with some entries.
func spooled(t *testing.T, entries []entry) []byte {
	t.Helper()
	s := newSpools(filepath.Join(t.TempDir(), "spool"), "w1", "s1", 1<<20)
	p, err := s.create(entries[0].Task)
	if err != nil {
		t.Fatal(err)
	}
	name := p.file.Name()
	for _, e := range entries[1:] {
		if ok, err := p.add(e, true); !ok || err != nil {
			t.Fatalf("no room: %v", err)
		}
	}
	text, readErr := os.ReadFile(name)
	if err := errors.Join(readErr, p.close(true)); err != nil {
		t.Fatal(err)
	}
	s.close()
	return text
}
