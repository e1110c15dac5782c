package projections

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"millrace/events"
	"millrace/events/logtest"
	fields "millrace/internal/form"
	"millrace/node"
	"millrace/task"
)

// samples are values of types of which not all are valid, or that a row holds in one form only.
var samples = []any{
	task.Abnormal, task.Selector{{Key: "zone", Op: task.OpIn, Values: []string{"a", "b"}}},
	task.Concurrencies{{Max: 2, Key: "a"}}, task.Rates{{Limit: 3, Per: 4, Burst: 5, Key: "b"}},
}

// through writes a task as a row and reads it back.
func through(t *testing.T, w task.Task) task.Task {
	t.Helper()
	s := open(t, "")
	f, err := newFold(t.Context(), s, 1)
	if err != nil {
		t.Fatal(err)
	}
	f.changes = []change{{task: w, isNew: true}}
	if err := f.writeTasks(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := f.w.close(); err != nil {
		t.Fatal(err)
	}
	return stored(t, s)[w.ID]
}

// I-8: a row holds every field of the fold, at every depth.
func TestRowHoldsEveryField(t *testing.T) {
	var full task.Task
	logtest.Fill(t, &full, samples...)
	if row := through(t, full); !reflect.DeepEqual(row, full) {
		t.Errorf("row  %+v\nfold %+v", row, full)
	}
	if row := through(t, task.Task{ID: "a"}); !reflect.DeepEqual(row, task.Task{ID: "a"}) {
		t.Errorf("of nothing the row is %+v", row)
	}
}

// What a list says of a task as JSON is what the fold says, in every field: the fields of a
// task travel as JSON from the read model to whoever asked, and none may be lost on the way.
func TestListedTaskHoldsEveryField(t *testing.T) {
	var full, read task.Task
	logtest.Fill(t, &full, samples...)
	text, err := json.Marshal(through(t, full))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(read, full) {
		t.Errorf("listed %+v\nfold   %+v", read, full)
	}
}

// The row of a node holds every field, too.
func TestNodeRowHoldsEveryField(t *testing.T) {
	var full node.Node
	logtest.Fill(t, &full, node.Ready, node.OrderDrain)
	s := open(t, "")
	f, err := newFold(t.Context(), s, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.writeNode(t.Context(), &full); err != nil {
		t.Fatal(err)
	}
	row, err := loadNode(t.Context(), f.w.conn, full.ID)
	if err != nil || !reflect.DeepEqual(row, full) {
		t.Errorf("row  %+v, %v\nfold %+v", row, err, full)
	}
	if err := f.w.close(); err != nil {
		t.Fatal(err)
	}
}

var update = flag.Bool("update", false, "write the examples of rows anew; look at what changes")

// An example of each document is kept, with every field: what is written, and what is read of it, stays as it is
// unless somebody says so. What a later version has added is passed over.
func TestRowExamples(t *testing.T) {
	example(t, "task", newRowForm(), samples...)
	example(t, "node", nodeForm, node.Ready, node.OrderDrain)
	example(t, "queue", queueForm)
}

func example[T any](t *testing.T, name string, form *fields.Form[T], samples ...any) {
	t.Helper()
	var full, read T
	logtest.Fill(t, &full, samples...)
	got, err := form.Append(nil, &full)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name+".json")
	if *update {
		if err := os.WriteFile(path, append(got, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || string(want) != string(got)+"\n" {
		t.Errorf("%v: the row of a %s is now\n%s\nwas\n%s", err, name, got, want)
	}
	later := append([]byte(`{"a_field_to_come":{"a":[1]},`), want[1:]...)
	if err := form.Read(later, &read); err != nil {
		t.Error(err)
	}
	again, err := form.Append(nil, &read)
	if err != nil || string(again) != string(got) {
		t.Errorf("%v: read was\n%s\nwant\n%s", err, again, got)
	}
}

// A file of rows that lack a field is none of this version.
func TestVersionFollowsFields(t *testing.T) {
	const unheard = "no_such_field"
	for _, part := range []string{unheard, "fair_key", "on_restart", "own_labels", "rate_since", "deadline INTEGER"} {
		made := tables + fields.Shape[task.Task]() + fields.Shape[node.Node]() + fields.Shape[task.Queue]()
		if strings.Contains(made, part) == (part == unheard) {
			t.Errorf("%s: what the version follows from is\n%s", part, made)
		}
	}
}

// The histories of these tests have every kind of fact about tasks and nodes.
func TestHistoriesHaveEveryFact(t *testing.T) {
	seen := map[events.Type]bool{}
	for seed := range uint64(20) {
		h := newHistory(seed, 12)
		h.grow(400)
		for _, r := range h.records {
			seen[r.Fact.Type] = true
		}
	}
	for _, typ := range events.Types {
		subject, _, _ := strings.Cut(string(typ), ".")
		if (subject == "task" || subject == "attempt" || subject == "node") && !seen[typ] {
			t.Errorf("no history has a %s", typ)
		}
	}
}
