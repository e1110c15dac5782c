package projections

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"millrace/events"
	"millrace/internal/testkit"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/node"
	"millrace/task/queue"
)

// The store answers every question of a view like the plain fold of the same records.
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

// The store refuses questions that it cannot answer.
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

// The sums for lists of queues, jobs and schedules are the same for any batches.
func TestSumsAgree(t *testing.T) {
	for seed := range testkit.Size(uint64(8), 20) {
		h := newHistory(600+seed, 30)
		s, memory, done := open(t, ""), view.NewMemory(), 0
		for range 5 {
			for range 60 {
				h.add()
				h.sum()
			}
			project(t, s, 20, h.records[done:], all)
			for ; done < len(h.records); done++ {
				memory.Add(&h.records[done])
			}
			agree(t, s, memory, view.Query{Kind: view.Queues})
			since := noon.Add(time.Duration(h.IntN(30)) * time.Hour)
			have, want := sumsOf(t, s, since), sumsOf(t, memory, since)
			if !reflect.DeepEqual(have, want) {
				t.Fatalf("seed %d, %d records:\n%v\nwant\n%v", seed, done, have, want)
			}
		}
	}
}

// sumsOf returns the sums of a model, in words.
func sumsOf(t *testing.T, m view.Summed, since time.Time) (all []string) {
	t.Helper()
	oldest, err := m.Oldest(t.Context())
	last, _, err2 := m.LastOfJobs(t.Context())
	ticks, _, err3 := m.Schedules(t.Context(), since)
	if err := errors.Join(err, err2, err3); err != nil {
		t.Fatal(err)
	}
	for q, at := range oldest {
		all = append(all, fmt.Sprint("oldest of ", q, at.Truncate(time.Microsecond)))
	}
	for job, k := range last {
		all = append(all, fmt.Sprint("last of job ", job, k.ID, k.Seq))
	}
	for name, k := range ticks {
		all = append(all, fmt.Sprint("schedule ", name, k.Last.ID, k.Last.Seq, k.Decided, k.Skipped))
	}
	slices.Sort(all)
	return all
}

// sum adds a record that affects the sums: about a queue, a tick, or the birth of a task of a
// schedule.
func (h *history) sum() {
	seq := uint64(1 + len(h.records)*2 + h.IntN(2))
	r := events.Record{Seq: seq, Fact: events.Fact{ID: fmt.Sprint(seq), At: noon, Actor: "a", Schedule: []string{"nightly", "pulse"}[h.IntN(2)]}, Kind: events.KindTick}
	tick := noon.Add(time.Duration(h.IntN(40)) * time.Hour).Truncate(time.Second)
	switch h.IntN(8) {
	case 6:
		r.Kind, r.Fact.Schedule, r.Fact.Def = events.KindDefinition, "", []task.Def{"job.crawl", "job.index", "schedule.nightly"}[h.IntN(3)]
		if r.Fact.Event = (task.DefinitionApplied{Edition: task.Edition{Revision: seq, Digest: h.valid(), Text: []byte(`{"a": [1, "}"]}`)}}); h.IntN(3) == 0 {
			r.Fact.Event = task.DefinitionRemoved{Revision: seq}
		}
	case 7: // one that is not readable
		r.Err, r.Fact = errors.New("no JSON"), []events.Fact{{Node: node.ID(h.valid() + "n")}, {Queue: "gpu"}, {Def: "job.torn"}}[h.IntN(3)]
		switch r.Kind = events.KindNode; {
		case r.Fact.Queue != "":
			r.Kind = events.KindQueue
		case r.Fact.Def != "":
			r.Kind = events.KindDefinition
		}
	case 0:
		r.Kind, r.Fact.Schedule, r.Fact.Queue, r.Fact.Event = events.KindQueue, "", []string{"gpu", "night"}[h.IntN(2)], queue.Paused{Reason: "r"}
	case 1:
		r.Fact.Event = task.ScheduleAdmitted{Tick: tick, Trigger: task.TriggerSchedule}
	case 2:
		r.Fact.Event = task.ScheduleQueued{Tick: tick}
	case 3, 4:
		e := task.ScheduleSkipped{Tick: tick, Reason: []string{"overlap", "late"}[h.IntN(2)], Count: h.IntN(4)}
		if h.IntN(2) == 0 {
			e.Until = tick.Add(time.Hour)
		}
		r.Fact.Event = e
	default:
		w := h.work()
		w.Schedule, w.Tick, w.Parent, r.Fact.Schedule = r.Fact.Schedule, tick, "", ""
		id := task.ID(ulidAt(noon.Add(-time.Minute), int(seq)))
		h.tasks = append(h.tasks, id)
		r.Kind, r.Fact.Task, r.Fact.Event = events.KindHold, id, task.Submitted{Work: w}
	}
	r.Fact.Type = events.TypeOf(r.Fact.Event)
	h.records = append(h.records, r)
}
