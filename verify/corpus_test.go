package verify_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"millrace/events"
	"millrace/incident"
	"millrace/internal/corpus"
	"millrace/task"
	"millrace/verify"
)

// The reports on logs of earlier versions stay the same. They are also the form of `verify --json`.
func TestReportOfCorpus(t *testing.T) {
	logs, err := filepath.Glob("../events/testdata/corpus/*/v*/*.jsonl")
	if err != nil || len(logs) < 4 {
		t.Fatalf("%d logs, error %v", len(logs), err)
	}
	for _, path := range logs {
		rest, name := filepath.Split(path)
		t.Run(name, func(t *testing.T) {
			text, err := json.MarshalIndent(reportOf(t, path, nil), "", " ")
			if err != nil {
				t.Fatal(err)
			}
			corpus.Result(t, filepath.Join("testdata/corpus/report", filepath.Base(rest), name), append(text, '\n'))
		})
	}
}

// In a log that was imported from a redacted incident file, verify finds what it finds in the
// original, although the file hides keys, and the words of breakers, limits and people.
func TestRedactedLogs(t *testing.T) {
	where := func(found []verify.Finding) (all []string) {
		for _, f := range found {
			all = append(all, fmt.Sprint(f.Rule, f.Task, f.Node, f.Seqs))
		}
		return all
	}
	for _, name := range []string{"session", "troubled", "limited"} {
		path := "../events/testdata/corpus/log/v1/" + name + ".jsonl"
		x := incident.NewRedactor([]byte("of a test"))
		redacted := reportOf(t, path, func(r *events.Record) events.Record {
			is, err := x.Fact(r)
			if err != nil {
				t.Fatal(err)
			}
			return is
		}).Findings
		if is, was := where(redacted), where(reportOf(t, path, nil).Findings); !slices.Equal(is, was) {
			t.Errorf("%s: found %v, and in the original %v: %+v", name, is, was, redacted)
		}
	}
}

// reportOf checks an export against the promises, with the rows of its fold. The records are
// changed before, if there is a change.
func reportOf(t *testing.T, path string, changed func(*events.Record) events.Record) *verify.Report {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := events.NewExportReader(bytes.NewReader(text))
	v, folded := verify.New(verify.Config{}), map[task.ID]*task.Task{}
	for err == nil {
		var record events.Record
		if record, err = r.Next(); err != nil {
			break
		}
		if changed != nil {
			record = changed(&record)
		}
		if err = v.Add(&record); record.Fact.Task != "" {
			k := folded[record.Fact.Task]
			if k == nil {
				k = &task.Task{ID: record.Fact.Task}
				folded[k.ID] = k
			}
			k.Apply(record.Task())
		}
	}
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	for _, k := range folded {
		v.Row(k)
	}
	v.RowsEnd()
	return v.Report(time.Time{})
}
