package events

import (
	"fmt"
	"reflect"
	"testing"

	"millrace/task"
)

// A history is the same before and after the log forgets, and while it has both.
func TestRecall(t *testing.T) {
	change := func(seq, revision, repeats uint64) Record {
		e := task.Edition{Revision: revision, Text: []byte(`{}`)}
		r := Record{Seq: seq, Kind: KindDefinition, Fact: Fact{Def: "job.a", Type: DefinitionApplied, Repeats: repeats, Event: task.DefinitionApplied{Edition: e, Source: "a.yaml"}}}
		if repeats > 0 && revision < 3 {
			r.Kind, r.Fact.Type, r.Fact.Event = KindCarried, DefinitionCarried, task.DefinitionCarried{Edition: e, As: string(DefinitionApplied), Source: "a.yaml"}
		}
		return r
	}
	first, second, third := change(4, 1, 0), change(7, 2, 0), change(9, 3, 0)
	want := []Record{first, second, third}
	for name, records := range map[string][]Record{
		"nothing forgotten": want,
		"both":              {first, second, third, change(20, 1, 4), change(21, 2, 7), change(22, 3, 9)},
		"forgotten":         {change(20, 1, 4), change(21, 2, 7), change(22, 3, 9)},
		"twice":             {change(20, 1, 4), change(22, 3, 9), change(30, 1, 4), change(31, 2, 7), change(32, 3, 9)},
		"the last stays":    {third, change(20, 1, 4), change(21, 2, 7)},
	} {
		got := Recall(records)
		for i := range got {
			got[i].Fact.Repeats = 0
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %s", name, fmt.Sprint(got))
		}
	}
}
