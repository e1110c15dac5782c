package projections

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/history/incident"
	"millrace/internal/testkit"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/node"
	"millrace/task/queue"
	"millrace/task/quota"
)

// The logs of earlier versions give the same rows as ever, in one batch or in many.
func TestFoldOfCorpus(t *testing.T) {
	logs, err := filepath.Glob("../events/testdata/corpus/*/v*/*.jsonl")
	if err != nil || len(logs) < 4 {
		t.Fatalf("%d logs, error %v", len(logs), err)
	}
	for _, path := range logs {
		rest, name := filepath.Split(path)
		t.Run(name, func(t *testing.T) {
			records := exported(t, path)
			rows := rowsOf(t, records, len(records))
			if few := rowsOf(t, records, 7); !bytes.Equal(rows, few) {
				t.Error("in batches of 7 the log comes to other rows")
			}
			testkit.Result(t, filepath.Join("testdata/corpus/fold", filepath.Base(rest), name), rows)
		})
	}
}

// The facts of incident files of earlier versions give the same rows as ever.
func TestFoldOfIncidentCorpus(t *testing.T) {
	files, err := filepath.Glob("../history/incident/testdata/corpus/incident/v*/*.mri")
	if err != nil || len(files) < 2 {
		t.Fatalf("%d files, error %v", len(files), err)
	}
	for _, path := range files {
		rest, name := filepath.Split(path)
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			f, err := incident.Open(data)
			if err != nil {
				t.Fatal(err)
			}
			var records []events.Record
			for r, err := range f.Whole() {
				if err != nil {
					t.Fatal(err)
				}
				records = append(records, r)
			}
			testkit.Result(t, filepath.Join("testdata/corpus/incident", filepath.Base(rest), name+".rows"), rowsOf(t, records, len(records)))
		})
	}
}

// exported are the records of an export.
func exported(t *testing.T, path string) (all []events.Record) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := events.NewExportReader(bytes.NewReader(text))
	for err == nil {
		var record events.Record
		if record, err = r.Next(); err == nil {
			all = append(all, record)
		}
	}
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return all
}

// rowsOf folds records in batches of a size, and returns every answer of the store, as lines of
// JSON.
func rowsOf(t *testing.T, records []events.Record, size int) []byte {
	t.Helper()
	s := open(t, "")
	f, err := newFold(t.Context(), s, 100)
	if err != nil {
		t.Fatal(err)
	}
	for part := range slices.Chunk(records, size) {
		if err := f.apply(t.Context(), part); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.w.close(); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	line := func(what string, value any) {
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %s\n", what, text)
	}
	for _, row := range allRows(t, s) {
		line(row.what, row.value)
	}
	return b.Bytes()
}

// row is one answer of a store.
type row struct {
	what  string
	value any
}

func allRows(t *testing.T, s *Store) (all []row) {
	t.Helper()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	say := func(what string, value any) { all = append(all, row{what, value}) }
	page, err := s.tasks(ctx, view.Filter{Limit: view.MaxLimit, OldestFirst: true})
	must(err)
	for i := range page.Tasks {
		say("task", &page.Tasks[i])
	}
	nodes, _, err := s.Nodes(ctx)
	must(err)
	for _, n := range nodes {
		say("node", n)
	}
	queues, err := s.SaidOfQueues(ctx)
	must(err)
	slices.SortFunc(queues, func(a, b queue.Queue) int { return strings.Compare(a.Name, b.Name) })
	for _, q := range queues {
		say("queue", q)
	}
	counts, _, err := s.Counts(ctx)
	must(err)
	for _, queue := range slices.Sorted(maps.Keys(counts)) {
		for _, state := range task.States() {
			if n := counts[queue][state]; n != 0 {
				say("count", []any{queue, state, n})
			}
		}
	}
	schedules, _, err := s.Schedules(ctx, time.Date(2026, 1, 29, 12, 0, 0, 0, time.UTC)) // a month: nobody asks for more
	must(err)
	for _, name := range slices.Sorted(maps.Keys(schedules)) {
		ticks := schedules[name]
		say("schedule", []any{name, ticks.Last.ID, ticks.Decided, ticks.Skipped})
	}
	jobs, _, err := s.LastOfJobs(ctx)
	must(err)
	for _, name := range slices.Sorted(maps.Keys(jobs)) {
		say("job", []any{name, jobs[name].ID})
	}
	used, _, err := s.EachLimited(ctx, func(k quota.Stand, _ quota.Counters, admitted *task.Grant) { say("limited", []any{k.ID, admitted}) })
	must(err)
	for _, name := range slices.Sorted(maps.Keys(used.Rates)) {
		say("rate", []any{name, used.Rates[name].UTC()})
	}
	for _, name := range slices.Sorted(maps.Keys(used.Budgets)) {
		y := used.Budgets[name]
		say("budget", []any{name, y.Since.UTC(), y.Starts, y.Ran, y.Last})
	}
	poison, _, err := s.messages(ctx, 0, view.MaxLimit)
	must(err)
	for _, p := range poison {
		say("poison", []any{p.Seq, p.Place, string(p.Raw)})
	}
	counters, err := countersOf(ctx, s)
	must(err)
	say("counters", counters)
	parents, err := s.Parents(ctx, view.MaxLimit)
	must(err)
	say("parents", parents)
	due, err := s.Due(ctx, time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), view.MaxLimit)
	must(err)
	slices.Sort(due)
	say("deadlines", due)
	return append(all, ofNodes(t, s, nodes)...)
}

// ofNodes returns the tasks that run on each node.
func ofNodes(t *testing.T, s *Store, nodes []node.Node) (all []row) {
	t.Helper()
	for _, n := range nodes {
		on, err := s.OnNode(t.Context(), n.ID)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, row{"on", []any{n.ID, on}})
	}
	return all
}
