package verify

import (
	"encoding/json"
	"testing"
	"time"

	"millrace/events/logtest"
	"millrace/history/verify/findings"
	"millrace/task"
)

// filled returns a task with every field set, and a verifier whose fold it is. With alone, the task
// is no parent.
func filled(t *testing.T, alone bool) (*Verifier, *task.Task) {
	t.Helper()
	var full task.Task
	logtest.Fill(t, &full, logtest.Samples...)
	full.ID = "01JNAT00000000000000000001"
	full.Seq = 1 // the verifier has read this far
	if alone {
		full.Spec.Each, full.Spec.Steps, full.Spec.Place.Count, full.Spec.Place.Each, full.Children = nil, nil, 0, false, nil
	}
	v := New(Config{})
	v.last = 1
	v.tasks.open[full.ID] = &story{id: full.ID, now: v.tasks.thin(&full, &folded{})}
	return v, throughJSON(t, &full)
}

// throughJSON returns a task after a round trip through JSON.
func throughJSON(t *testing.T, k *task.Task) *task.Task {
	t.Helper()
	text, err := json.Marshal(k)
	if err != nil {
		t.Fatal(err)
	}
	row := new(task.Task)
	if err := json.Unmarshal(text, row); err != nil {
		t.Fatal(err)
	}
	return row
}

// I-8: a row that differs from the fold in any field, at any depth, is found.
func TestRowsAreComparedInEveryField(t *testing.T) {
	for name, alone := range map[string]bool{"parent": false, "no parent": true} {
		t.Run(name, func(t *testing.T) {
			v, row := filled(t, alone)
			check := func(what string, want bool) {
				t.Helper()
				before := v.book.Broken(ReadModel)
				came := *row // with its own copy of the spec, which is known by its address
				if row.Spec != nil {
					spec := *row.Spec
					came.Spec = &spec
				}
				v.Row(&came)
				if found := v.book.Broken(ReadModel) > before; found != want {
					t.Errorf("%s: found: %v, want %v; %+v", what, found, want, v.Report(time.Time{}).Findings)
				}
				v.book = findings.New(findings.Config{Rules: Rules(), Keep: 1})
			}
			check("the row is the fold", false)
			fields := 0
			logtest.Leaves(t, row, func(path string, change, undo func()) {
				if path == ".ID" || path == ".Spec.Each.Values[0]" || path == ".Spec.Each.Values[1]" {
					return // by which it is found; JSON has no empty value in a list
				}
				change()
				check(path, true)
				undo()
				fields++
			}, logtest.Samples...)
			if check("the row is the fold again", false); fields < 150 {
				t.Errorf("only %d fields were compared", fields)
			}
		})
	}
}

// A row that traveled as JSON is the same row, in any spelling of JSON.
func TestRowsThroughJSON(t *testing.T) {
	v, full := filled(t, true)
	full.Message = "größe <b>&\u2028 and bad \xff\xfe bytes"
	full.Params = json.RawMessage("{\"a\": \"<\u00fc\\n\\\"\u2028>\", \"b\":[1, 2.50]}")
	full.Labels = map[string]string{"team": "<a>", "b": "\xff"}
	full.StartedAt = full.StartedAt.In(time.FixedZone("", 3600))
	v.tasks.open[full.ID].now = v.tasks.thin(full, &folded{})
	v.Row(throughJSON(t, full))
	if found := v.Report(time.Time{}).Findings; len(found) > 0 {
		t.Errorf("found %+v", found)
	}
}

// The kept part of a task folds further like the task itself, although it has digests.
func TestThinTaskIsTheTask(t *testing.T) {
	_, full := filled(t, true)
	v := New(Config{})
	first := v.tasks.thin(full, &folded{})
	again := first
	for range 3 {
		k := v.tasks.task(full.ID, &again)
		again = v.tasks.thin(&k, &again)
	}
	if list := v.tasks.differences(again, first); len(list) > 0 {
		t.Errorf("after a fold in which nothing happened: %v", list)
	}
}
