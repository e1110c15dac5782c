package view_test

import (
	"fmt"
	"testing"
	"time"

	"millrace/events"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/node"
	"millrace/task/queue"
)

// Each change by a person lists what it changed. Automatic changes are not listed, and no secret is
// shown.
func TestAlterations(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	job, token := task.Def("job.hello"), task.Def("token.ci")
	def := func(text string) task.DefinitionEvent {
		return task.DefinitionApplied{Edition: task.Edition{Revision: 1, Text: []byte(text)}}
	}
	var log view.Slice
	for i, f := range []struct {
		fact events.Fact
		kind events.Kind
	}{
		{events.Fact{Def: job, Actor: "ada", Event: def(`{"run":{"argv":["a"]}}`)}, events.KindDefinition},
		{events.Fact{Def: job, Actor: "kim", Event: def(`{"run":{"argv":["b"]}}`)}, events.KindDefinition},
		{events.Fact{Def: token, Actor: "ada", Event: def(`{"hash":"x"}`)}, events.KindDefinition},
		{events.Fact{Queue: "low", Actor: "ada", Event: queue.Paused{Reason: "r"}}, events.KindQueue},
		{events.Fact{Queue: "low", Actor: events.PartScheduler, Event: queue.Resumed{}}, events.KindQueue},
		{events.Fact{Node: "n1", Actor: "n1", Event: node.Registered{Session: "s"}}, events.KindNode},
		{events.Fact{Node: "n1", Actor: "lea", Event: node.Changed{Order: node.OrderDrain, Reason: "disk"}}, events.KindNode},
	} {
		f.fact.At, f.fact.Type = now.Add(time.Duration(i)*time.Second), events.TypeOf(f.fact.Event)
		log = append(log, events.Record{Seq: uint64(i + 1), Stored: f.fact.At, Kind: f.kind, Fact: f.fact})
	}
	v := view.Past(log, view.Moment{})
	things, err := view.Changeable(t.Context(), v, 5)
	if err != nil || len(things) != 4 {
		t.Fatalf("%+v can be changed, %v", things, err)
	}
	if some, err := view.Changeable(t.Context(), v, 1); err != nil || len(some) != 3 || some[0].ID != string(token) {
		t.Errorf("%+v were changed last, %v", some, err)
	}
	got := map[uint64]string{}
	for _, thing := range things {
		all, err := view.Alterations(t.Context(), v, thing.Ref, 5)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range all {
			got[a.Seq] = a.Fact.Actor
			for _, c := range a.Changes {
				got[a.Seq] += fmt.Sprintf(" %s:%s>%s", c.Field, c.Was, c.Is)
			}
		}
	}
	want := map[uint64]string{1: `ada run.argv:>["a"]`, 2: `kim run.argv:["a"]>["b"]`, 3: "ada"}
	for seq, text := range want {
		if got[seq] != text {
			t.Errorf("#%d is %q, want %q", seq, got[seq], text)
		}
	}
	if len(got) != 5 || got[4] == "" || got[7] == "" {
		t.Errorf("the changes are %v", got)
	}
}
