package projections

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"millrace/events"
	"millrace/events/logtest"
	"millrace/internal/form"
	"millrace/internal/testkit"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/limit"
	"millrace/task/node"
	"millrace/task/queue"
)

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
	logtest.Fill(t, &full, logtest.Samples...)
	full.Carry = nil // no row has it
	if row := through(t, full); !reflect.DeepEqual(row, full) {
		t.Errorf("row  %+v\nfold %+v", row, full)
	}
	if row := through(t, task.Task{ID: "a"}); !reflect.DeepEqual(row, task.Task{ID: "a"}) {
		t.Errorf("of nothing the row is %+v", row)
	}
}

// I-8: pages of rows hold every field of every task, in both orders. A large row has a page of its
// own.
func TestRowsHoldEveryField(t *testing.T) {
	s := open(t, "")
	f, err := newFold(t.Context(), s, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 7 {
		k := task.Task{ID: task.ID(fmt.Sprintf("01JNAT%020d", i)), State: task.Finished, Seq: uint64(i + 1)}
		switch i {
		case 2:
			id := k.ID
			logtest.Fill(t, &k, logtest.Samples...)
			k.ID = id
		case 3, 4:
			k.Message = strings.Repeat("x", rowsBytes)
		}
		f.changes = append(f.changes, change{task: k, isNew: true})
	}
	if err := f.writeTasks(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := f.w.close(); err != nil {
		t.Fatal(err)
	}
	want := stored(t, s)
	form := form.Of[task.Task](form.Own(), events.NewSpecCache().Field())
	for _, oldest := range []bool{true, false} {
		got, pages := map[task.ID]task.Task{}, 0
		for filter := (view.Filter{Limit: 3, OldestFirst: oldest}); pages == 0 || filter.After != ""; pages++ {
			page, err := s.Rows(t.Context(), filter)
			if err != nil {
				t.Fatal(err)
			}
			size := 0
			for _, text := range page.Rows {
				var k task.Task
				if err := form.Read(text, &k); err != nil {
					t.Fatal(err)
				}
				got[k.ID], size = k, size+len(text)
			}
			if size > rowsBytes+1000 && len(page.Rows) > 1 {
				t.Errorf("a page of %d rows has %d bytes", len(page.Rows), size)
			}
			filter.After = page.Next
		}
		if !reflect.DeepEqual(got, want) || pages != 4 {
			t.Errorf("oldest first %v: %d rows on %d pages, want %d on 4", oldest, len(got), pages, len(want))
		}
	}
	if _, err := s.Rows(t.Context(), view.Filter{Limit: 1001}); err == nil {
		t.Error("1001 rows on one page are accepted")
	}
}

// A listed task as JSON equals the fold, in every field: fields travel as JSON from the read model
// to the caller, and none may be lost.
func TestListedTaskHoldsEveryField(t *testing.T) {
	var full, read task.Task
	logtest.Fill(t, &full, logtest.Samples...)
	full.Carry = nil // no row has it
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

// The row of a node, a queue and a definition holds every field, too.
func TestRowOfSubjectHoldsEveryField(t *testing.T) {
	s := open(t, "")
	f, err := newFold(t.Context(), s, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, full := range []view.Item{{Node: new(node.Node)}, {Queue: new(queue.Queue)}, {Definition: new(task.Definition)}} {
		ref := view.Ref{ID: "x"}
		switch {
		case full.Node != nil:
			ref.Kind = view.Nodes
			logtest.Fill(t, full.Node, logtest.Samples...)
		case full.Queue != nil:
			ref.Kind = view.Queues
			logtest.Fill(t, full.Queue, logtest.Samples...)
		default:
			ref.Kind = view.Definitions
			logtest.Fill(t, full.Definition, logtest.Samples...)
		}
		if err := f.writeSubject(t.Context(), ref, &full); err != nil {
			t.Fatal(err)
		}
		row, err := loadSubject(t.Context(), f.w.conn, ref)
		if err != nil || !reflect.DeepEqual(row, full) {
			t.Errorf("%s: row  %+v, %v\nfold %+v", ref, row, err, full)
		}
	}
	if err := f.w.close(); err != nil {
		t.Fatal(err)
	}
}

// documentVersion is the version of tasks, nodes, queues, definitions and tallies as JSON: in rows, in answers to people
// and programs, and in files of workers. It is not written anywhere yet, so later readers recognize
// this first version by its absence.
const documentVersion = 1

// Every field of a task, a node, a queue, a definition and a tally is written and read as ever. Fields of later versions
// are ignored.
func TestDocumentCorpus(t *testing.T) {
	names := map[string]func([]byte) ([]byte, error){
		"task":  document(t, newRowForm()),
		"node":  document(t, nodeForm),
		"queue": document(t, queueForm),
		"tally": document(t, tallyForm),

		"definition": document(t, definitionForm),
	}
	for name, again := range names {
		today, err := again(nil)
		if err != nil {
			t.Fatal(err)
		}
		testkit.Test(t, testkit.Form{Dir: "testdata/corpus/" + name, Version: documentVersion, Today: map[string][]byte{"full.json": today}, Again: again, Unknown: testkit.Dropped})
	}
}

// document reads and rewrites a document; for nil it writes one with every field.
func document[T any](t *testing.T, form *form.Form[T]) func([]byte) ([]byte, error) {
	return func(written []byte) ([]byte, error) {
		var read T
		if written == nil {
			logtest.Fill(t, &read, logtest.Samples...)
		} else if err := form.Read(bytes.TrimSpace(written), &read); err != nil {
			return nil, err
		}
		text, err := form.Append(nil, &read)
		return append(text, '\n'), err
	}
}

// A file of rows without a field counts as another version.
func TestVersionFollowsFields(t *testing.T) {
	const unheard = "no_such_field"
	for _, part := range []string{unheard, "fair_key", "on_restart", "own_labels", "rate_since", "ran", "revision", "deadline INTEGER"} {
		made := tables + form.Shape[task.Task]() + form.Shape[node.Node]() + form.Shape[queue.Queue]() + form.Shape[task.Definition]() + form.Shape[limit.Tally]()
		if strings.Contains(made, part) == (part == unheard) {
			t.Errorf("%s: what the version follows from is\n%s", part, made)
		}
	}
}

// The histories of these tests contain every kind of fact about tasks and nodes.
func TestHistoriesHaveEveryFact(t *testing.T) {
	seen := map[events.Type]bool{}
	for seed := range uint64(20) {
		h := newHistory(seed, 12)
		h.grow(400)
		h.horizon(t)
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
