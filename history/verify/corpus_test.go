package verify_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"millrace/events"
	"millrace/history/verify"
	"millrace/internal/testkit"
	"millrace/task"
)

// The reports on logs of earlier versions stay the same. They are also the form of `verify --json`.
func TestReportOfCorpus(t *testing.T) {
	logs, err := filepath.Glob("../../events/testdata/corpus/*/v*/*.jsonl")
	if err != nil || len(logs) < 4 {
		t.Fatalf("%d logs, error %v", len(logs), err)
	}
	for _, path := range logs {
		rest, name := filepath.Split(path)
		t.Run(name, func(t *testing.T) {
			text, err := json.MarshalIndent(reportOf(t, path), "", " ")
			if err != nil {
				t.Fatal(err)
			}
			testkit.Result(t, filepath.Join("testdata/corpus/report", filepath.Base(rest), name), append(text, '\n'))
		})
	}
}

// reportOf checks an export against the promises, with the rows of its fold.
func reportOf(t *testing.T, path string) *verify.Report {
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
