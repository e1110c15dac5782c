package projections

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"

	"millrace/events"
	"millrace/projections/past"
	"millrace/projections/view"
	"millrace/task"
)

// tracer knows where in the log something is.
type tracer interface {
	LastFailed(ctx context.Context, most int) ([]task.Task, error)
	Traces(ctx context.Context, c view.Trace, beyond uint64, most int) ([]uint64, error)
}

// tracesAgree compares the messages that an index names with a look at each record up to a place.
func tracesAgree(t *testing.T, is tracer, memory *view.Memory, h *history, n int) {
	t.Helper()
	of := map[string]func(*view.Trace){
		"type":     func(c *view.Trace) { c.Types = []string{"task"} },
		"types":    func(c *view.Trace) { c.Types = []string{"attempt.started", "node", "task.cancelled"} },
		"actor":    func(c *view.Trace) { c.Actor = "plain" },
		"no actor": func(c *view.Trace) { c.Actor = "none" },
		"node":     func(c *view.Trace) { c.Node = "plain" },
		"queue":    func(c *view.Trace) { c.Queue = "gpu" },
		"job":      func(c *view.Trace) { c.Job = "crawl" },
		"schedule": func(c *view.Trace) { c.Schedule = "nightly" },
	}
	all := []string{"type", "types", "actor", "no actor", "node", "queue", "job", "schedule"}
	for range 6 {
		c, name := view.Trace{}, ""
		for range 1 + h.IntN(2) {
			one := all[h.IntN(len(all))]
			of[one](&c)
			name += " " + one
		}
		most := 1 + h.IntN(40)
		for _, c.OldestFirst = range []bool{false, true} {
			beyond := h.records[h.IntN(n)].Seq + uint64(h.IntN(2))
			var want []uint64
			for i := range h.records[:n] {
				r := &h.records[i]
				if before := r.Seq < beyond; i >= h.cut && r.Seq != beyond && before != c.OldestFirst && chosen(t, r, &c, memory) {
					want = append(want, r.Seq)
				}
			}
			if !c.OldestFirst {
				slices.Reverse(want)
			}
			have, err := is.Traces(t.Context(), c, beyond, most)
			if err != nil {
				t.Fatal(err)
			}
			if want = want[:min(len(want), most)]; !slices.Equal(have, want) {
				t.Fatalf("%s beyond %d of %d, the oldest first: %v, at most %d:\nhave %v\nwant %v", name, beyond, n, c.OldestFirst, most, have, want)
			}
		}
	}
}

// chosen is the meaning of a choice, in the simplest form.
func chosen(t *testing.T, r *events.Record, c *view.Trace, memory *view.Memory) bool {
	f := &r.Fact
	if !r.IsFact() || !c.OfType(f.Type) || c.Actor != "" && f.Actor != c.Actor || c.Node != "" && view.FactNode(r) != c.Node && f.Actor != c.Node {
		return false
	}
	queue, job, schedule := f.Queue, f.Job, f.Schedule
	switch f.Def.Kind() {
	case task.DefJob:
		job = f.Def.Name()
	case task.DefSchedule:
		schedule = f.Def.Name()
	}
	if view.RefOf(r).Kind == view.Tasks {
		page, err := memory.List(t.Context(), view.Query{Kind: view.Tasks, Filter: view.Filter{IDPart: string(f.Task)}})
		if err != nil {
			t.Fatal(err)
		}
		queue, job, schedule = "", "", ""
		for i := range page.Tasks {
			queue, job, schedule = page.Tasks[i].QueueName(), page.Tasks[i].Job, page.Tasks[i].Schedule
		}
	}
	return (c.Queue == "" || queue == c.Queue) && (c.Job == "" || job == c.Job) && (c.Schedule == "" || schedule == c.Schedule)
}

// failuresAgree compares the tasks that failed last with those of the plain fold.
func failuresAgree(t *testing.T, is, memory tracer) {
	t.Helper()
	for _, most := range []int{1, 3, 50} {
		have, err := is.LastFailed(t.Context(), most)
		want, err2 := memory.LastFailed(t.Context(), most)
		page, other := view.Page{Tasks: have}, view.Page{Tasks: want}
		if err := errors.Join(err, err2); err != nil || !reflect.DeepEqual(briefly(&page), briefly(&other)) {
			t.Fatalf("%v: the last %d failures are %v, want %v", err, most, briefly(&page), briefly(&other))
		}
	}
}

// While the log grows, the present answers from the index of the past as the plain fold does.
func TestPresentTells(t *testing.T) {
	for seed := range uint64(8) {
		h := newHistory(1300+seed, 40)
		s := open(t, "")
		if seed > 0 {
			few := past.UsualBounds
			few.Block = 1 + h.IntN(400)
			rebound(t, s, few)
		}
		memory := view.NewMemory()
		for done := 0; done < 500; done = len(h.records) {
			for range 1 + h.IntN(90) {
				h.add()
				h.sum()
			}
			project(t, s, 20, h.records[done:], func() int { return 1 + h.IntN(40) })
			for i := range h.records[done:] {
				memory.Add(&h.records[done+i])
			}
			for range 8 {
				q := view.Query{Kind: view.Tasks, Filter: h.filter()}
				q.Suspect = nil
				have, err := s.List(t.Context(), q)
				want, err2 := memory.List(t.Context(), q)
				have.Point, want.Point = view.Point{}, view.Point{}
				if err := errors.Join(err, err2); err != nil || !reflect.DeepEqual(briefly(&have), briefly(&want)) {
					t.Fatalf("%+v: %v\nhave %v\nwant %v", q.Filter, err, briefly(&have), briefly(&want))
				}
				counts, err := s.Count(t.Context(), q)
				plain, err2 := memory.Count(t.Context(), q)
				if err := errors.Join(err, err2); err != nil || counts.Point.Seq != plain.Point.Seq || len(counts.Of)+len(plain.Of) > 0 && !reflect.DeepEqual(counts.Of, plain.Of) {
					t.Fatalf("%+v: %v, %v, want %v", q.Filter, err, counts, plain)
				}
			}
			failuresAgree(t, s, memory)
			tracesAgree(t, s, memory, h, len(h.records))
		}
	}
}
