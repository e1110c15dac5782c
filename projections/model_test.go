package projections

import (
	"reflect"
	"testing"

	"millrace/events"
	"millrace/task"
	"millrace/view"
)

// The store answers as the plain fold of the same records does, whatever is asked of a view.
func TestModelsAgree(t *testing.T) {
	for seed := range uint64(4) {
		h := newHistory(500+seed, 40)
		h.grow(100)
		s, memory, done := open(t, ""), view.NewMemory(), 0
		for range 4 {
			h.grow(100)
			project(t, s, 20, h.records[done:], all)
			for ; done < len(h.records); done++ {
				memory.Add(&h.records[done])
			}
			agree(t, s, memory, view.Query{Kind: view.Nodes})
			agree(t, s, memory, view.Query{Kind: view.Queues})
			agree(t, s, memory, view.Query{Kind: view.Messages, Filter: view.Filter{Limit: 3}})
			agree(t, s, memory, view.Query{Kind: view.Messages, Before: 200})
			agree(t, s, memory, view.Query{Kind: view.Tasks, Filter: view.Filter{Queue: "gpu"}})
			for range 30 {
				agree(t, s, memory, view.Query{Kind: view.Tasks, Filter: h.filter()})
			}
		}
	}
}

func agree(t *testing.T, s *Store, memory *view.Memory, q view.Query) {
	t.Helper()
	have, err := s.List(t.Context(), q)
	want, err2 := memory.List(t.Context(), q)
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	want.Point.At = have.Point.At // the store does not know it
	glances := func(p *view.Page) (all []any) {
		for i := range p.Tasks {
			all = append(all, p.Tasks[i].ID, p.Tasks[i].Seq, p.Tasks[i].State)
		}
		for i := range p.Nodes {
			all = append(all, p.Nodes[i].ID, p.Nodes[i].State)
		}
		for i := range p.Queues {
			all = append(all, p.Queues[i].Name, p.Queues[i].Head)
		}
		for i := range p.Messages {
			all = append(all, p.Messages[i].Seq, string(p.Messages[i].Raw))
		}
		return append(all, p.Next, p.Point)
	}
	if have, want := glances(&have), glances(&want); !reflect.DeepEqual(have, want) {
		t.Fatalf("%+v:\nhave %v\nwant %v", q, have, want)
	}
	if q.Kind != view.Tasks {
		return
	}
	counts, err := s.Count(t.Context(), q)
	plain, err2 := memory.Count(t.Context(), q)
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	for _, queue := range []string{"default", "gpu", "night", "@n1"} {
		for _, state := range task.States() {
			if counts.Of[queue][state] != plain.Of[queue][state] {
				t.Fatalf("%+v: %v, want %v", q, counts.Of, plain.Of)
			}
		}
	}
}

// What the store cannot answer it refuses.
func TestModelRefuses(t *testing.T) {
	s := open(t, "")
	project(t, s, 20, []events.Record{{Seq: 1, Kind: events.KindProbe}}, all)
	if _, err := s.List(t.Context(), view.Query{Kind: view.Definitions}); err == nil {
		t.Error("definitions were listed")
	}
	if _, err := s.Count(t.Context(), view.Query{Kind: view.Nodes}); err == nil {
		t.Error("nodes were counted")
	}
}
