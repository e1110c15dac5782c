package projections

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"millrace/events"
	"millrace/internal/testkit"
	"millrace/projections/past"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/node"
	"millrace/task/queue"
)

// What the log has forgotten is gone from the rows and from the index, over restarts, and all else stays as
// it was: at each moment that the log keeps, both answer like the fold of all that ever happened, without
// the tasks that are gone.
func TestRowsForget(t *testing.T) {
	for seed := range testkit.Size(uint64(6), 30) {
		h := newHistory(3000+seed, 60)
		path := filepath.Join(t.TempDir(), "read.db")
		for done := 0; done < 600; done = len(h.records) {
			for range 100 {
				h.add()
				h.sum()
			}
			s, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			few := past.UsualBounds
			few.Block, few.Frame, few.Part, few.Near, few.Few = 1+h.IntN(400), int64(h.IntN(600)), 4, int64(h.IntN(2000)), h.IntN(40)
			rebound(t, s, few)
			project(t, s, 1+h.IntN(40), h.records[done:], func() int { return 1 + h.IntN(40) })
			if err := s.Index(t.Context()); err != nil {
				t.Fatal(err)
			}
			forget(t, s, h)
			for range 4 {
				pastAgrees(t, s, h, h.cut+1+h.IntN(len(h.records)-h.cut))
			}
			presentAgrees(t, s, h)
			rowsAgree(t, s, h)
			if h.cut > 0 {
				early := s.At(view.Point{Seq: h.records[h.cut-1].Seq}, h)
				if _, err := early.Count(t.Context(), view.Query{Kind: view.Tasks}); !errors.Is(err, view.ErrForgotten) {
					t.Fatalf("before the horizon: %v", err)
				}
			}
			if len(s.Notices()) > 0 {
				t.Fatal("discarded:", s.Notices())
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// forget removes the front of a history from a store.
func forget(t *testing.T, s *Store, h *history) {
	t.Helper()
	f, err := newFold(t.Context(), s, 20)
	if err != nil {
		t.Fatal(err)
	}
	h.cut += h.IntN((len(h.records) - h.cut) / 2)
	below, last := h.records[h.cut].Seq, map[task.ID]uint64{}
	for i := range h.records {
		if ref := view.RefOf(&h.records[i]); ref.Kind == view.Tasks {
			last[task.ID(ref.ID)] = h.records[i].Seq
		}
	}
	h.gone = map[task.ID]bool{}
	for id, seq := range last {
		h.gone[id] = seq < below
	}
	h.tasks = slices.DeleteFunc(h.tasks, func(id task.ID) bool { return h.gone[id] }) // they are not heard of again
	for len(h.tasks) < 30 {
		h.tasks = append(h.tasks, task.ID(ulidAt(noon.Add(time.Hour), int(h.Uint32()))))
	}
	f.at.Below = below
	if err := errors.Join(f.forget(t.Context()), f.forget(t.Context()), f.w.close()); err != nil {
		t.Fatal(err)
	}
}

// rowsAgree compares rows and counts with the fold of all that ever happened, without what is gone.
func rowsAgree(t *testing.T, s *Store, h *history) {
	t.Helper()
	want, have := h.folded(), stored(t, s)
	maps.DeleteFunc(want, func(id task.ID, _ task.Task) bool { return h.gone[id] })
	for id, is := range want {
		if !reflect.DeepEqual(have[id], is) {
			t.Fatalf("row  %+v\nwant %+v", have[id], is)
		}
	}
	if len(have) != len(want) {
		t.Fatalf("%d rows, want %d", len(have), len(want))
	}
	if in, known := rowsIn(&s.texts); known && in != len(have) {
		t.Fatalf("the index of texts has %d rows of %d", in, len(have))
	}
	counts, _, err := s.Counts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n := map[string]map[task.State]int{}
	dead := map[task.Letter]int{task.LetterGivenUp: 0, task.LetterUsedUp: 0}
	for _, is := range want {
		if is.State != task.Unknown {
			if n[is.QueueName()] == nil {
				n[is.QueueName()] = map[task.State]int{}
			}
			n[is.QueueName()][is.State]++
		}
		if is.Dead() {
			dead[is.Letter()]++
		}
	}
	if !reflect.DeepEqual(counts, n) {
		t.Fatalf("counts %v, want %v", counts, n)
	}
	if letters, _, err := s.Dead(t.Context()); err != nil || !maps.Equal(letters, dead) {
		t.Fatalf("dead letters %v, %v, want %v", letters, err, dead)
	}
}

// horizon lets a log forget its front: it says at the end what must stay of it, as servers do.
func (h *history) horizon(t *testing.T) {
	t.Helper()
	h.cut = len(h.records)/4 + h.IntN(len(h.records)/2)
	below := h.records[h.cut].Seq
	span := task.Span{Below: below, Before: noon.Add(time.Hour)}
	seq := h.records[len(h.records)-1].Seq
	write := func(kind events.Kind, f events.Fact) {
		seq++
		f.ID, f.At, f.Type = fmt.Sprint("horizon-", seq), noon, events.TypeOf(f.Event)
		h.records = append(h.records, events.Record{Seq: seq, Kind: kind, Fact: f})
	}
	h.gone = map[task.ID]bool{}
	subjects := map[view.Ref][]events.Record{}
	for i := range h.records {
		if ref := view.RefOf(&h.records[i]); ref.Kind > 0 {
			subjects[ref] = append(subjects[ref], h.records[i])
		}
	}
	for ref, records := range subjects {
		last := records[len(records)-1].Seq
		switch {
		case records[0].Seq >= below:
		case ref.Kind == view.Tasks && last < below && h.IntN(2) == 0:
			h.gone[task.ID(ref.ID)] = true
		case ref.Kind == view.Tasks:
			is := events.FoldTask(task.ID(ref.ID), records)
			is.Rivals = nil
			write(events.KindCarried, events.Fact{Task: is.ID, Event: task.Carried{Fold: is, Born: task.Beginning{Seq: records[0].Seq}}})
			write(events.KindChain, events.Fact{Task: is.ID, Event: task.Kept{Head: is.Head}})
		case ref.Kind == view.Nodes:
			is := events.FoldNode(node.ID(ref.ID), records)
			write(events.KindNode, events.Fact{Node: is.ID, Event: node.Carried{Fold: is, Stored: is}})
		case ref.Kind == view.Queues:
			write(events.KindQueue, events.Fact{Queue: ref.ID, Event: queue.Carried{Fold: events.FoldQueue(ref.ID, records)}})
		case ref.Kind == view.Definitions:
			if r := events.LastReadable(records); r.Seq > 0 && r.Seq < below {
				again := r.Fact
				again.Repeats = r.Seq
				seq++
				h.records = append(h.records, events.Record{Seq: seq, Kind: r.Kind, Fact: again})
			}
		}
	}
	write(events.KindTally, events.Fact{Job: "crawl", Event: task.JobTallied{Below: below, Finished: uint64(len(h.gone)), Buckets: []uint64{0, 3}}})
	write(events.KindHorizon, events.Fact{Event: task.HorizonCarried{Span: span}})
	write(events.KindHorizon, events.Fact{Event: task.HorizonPurged{Span: span}})
}

// A log that has forgotten its front folds to the same rows as one that has not, without what is gone,
// and so does a read model that has seen it go.
func TestTrimmedLogFoldsAlike(t *testing.T) {
	for seed := range testkit.Size(uint64(10), 60) {
		h := newHistory(7000+seed, 40)
		for range 100 {
			h.add()
			h.add()
			h.sum()
		}
		born := h.folded() // a log has the births of all its tasks
		h.records = slices.DeleteFunc(h.records, func(r events.Record) bool {
			ref := view.RefOf(&r)
			return ref.Kind == view.Tasks && born[task.ID(ref.ID)].SubmittedAt.IsZero()
		})
		h.horizon(t)
		whole, trimmed := open(t, ""), open(t, "")
		project(t, whole, 1+h.IntN(40), h.records, func() int { return 1 + h.IntN(60) })
		project(t, trimmed, 1+h.IntN(40), h.records[h.cut:], func() int { return 1 + h.IntN(60) })
		for _, s := range []*Store{whole, trimmed} {
			rowsAgree(t, s, h)
			presentAgrees(t, s, h)
			nodes, _, err := s.Nodes(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if n := h.foldedNodes(); len(nodes) != len(n) {
				t.Fatalf("%d nodes, want %d", len(nodes), len(n))
			}
			for _, is := range nodes {
				if want := h.foldedNodes()[is.ID]; !reflect.DeepEqual(is, want) {
					t.Fatalf("node %+v\nwant %+v", is, want)
				}
			}
			sums, err := s.Tallies(t.Context())
			if want := len(h.gone); err != nil || int(sums["crawl"].Finished) != want || sums["crawl"].Buckets[1] != 3 {
				t.Fatalf("%v, %v, want %d", sums, err, want)
			}
		}
		memory := view.NewMemory()
		for i := range h.records[h.cut:] {
			memory.Add(&h.records[h.cut+i])
		}
		for id, want := range h.folded() {
			if is := memory.Task(id); h.gone[id] != (is == nil) || is != nil && !reflect.DeepEqual(*is, want) {
				t.Fatalf("%+v\nwant %+v", is, want)
			}
		}
		stillTold(t, whole, h)
		if _, err := trimmed.At(view.Point{Seq: h.records[h.cut+1].Seq}, h).States(t.Context(), h.tasks); !errors.Is(err, view.ErrForgotten) {
			t.Fatalf("made again from what is left: %v", err)
		}
		since, err := trimmed.RunsSince(t.Context())
		if err != nil || since.IsZero() || since.After(noon.Add(time.Hour)) {
			t.Fatalf("runs since %v, %v", since, err)
		}
	}
}

// stillTold wants of a read model that has seen the front go the states of all tasks that are left, at
// moments behind the horizon, also of those that were carried later.
func stillTold(t *testing.T, s *Store, h *history) {
	t.Helper()
	for range 5 {
		n, memory := h.cut+1+h.IntN(len(h.records)-h.cut-1), view.NewMemory()
		for i := range h.records[:n] {
			memory.Add(&h.records[i])
		}
		h.remember(memory)
		at := view.Point{Seq: h.records[n-1].Seq}
		page, err := s.At(at, view.Slice(h.records[h.cut:])).List(t.Context(), view.Query{Kind: view.Tasks, Filter: view.Filter{Limit: view.MaxLimit}})
		want, err2 := memory.List(t.Context(), view.Query{Kind: view.Tasks, Filter: view.Filter{Limit: view.MaxLimit}})
		if err := errors.Join(err, err2); err != nil || len(page.Tasks) != len(want.Tasks) {
			t.Fatalf("%v: %d tasks, want %d", err, len(page.Tasks), len(want.Tasks))
		}
		for i := range want.Tasks {
			if is, want := &page.Tasks[i], &want.Tasks[i]; is.ID != want.ID || is.State != want.State || is.Job != want.Job || is.Route != want.Route {
				t.Fatalf("at %d: %+v\nwant %+v", at.Seq, is, want)
			}
		}
	}
}

// What rows left of the file goes back to the file system when the projector rests.
func TestFileShrinks(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "view.db")
	s := open(t, file)
	f, err := newFold(t.Context(), s, 10)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.w.close() }()
	pages := func(of string) (n int) {
		if err := f.w.conn.QueryRowContext(t.Context(), "PRAGMA "+of).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if err := f.apply(t.Context(), noops(t, 3000, 1)); err != nil {
		t.Fatal(err)
	}
	full := pages("page_count")
	if err := f.w.exec(t.Context(), "DELETE FROM tasks"); err != nil {
		t.Fatal(err)
	}
	free := pages("freelist_count")
	if more, err := f.vacuum(t.Context(), 10); err != nil || !more || pages("freelist_count") != free-10 {
		t.Fatalf("of %d free pages %d are left, error %v; that there are more is %v", free, pages("freelist_count"), err, more)
	}
	if more, err := f.rest(t.Context()); err != nil || more {
		t.Fatalf("there are more pages: %v, %v", more, err)
	}
	if free, left := pages("freelist_count"), pages("page_count"); free > 0 || left > full/4 {
		t.Errorf("of %d pages %d are left, %d of them free", full, left, free)
	}
	if wal, err := os.Stat(file + "-wal"); err != nil || wal.Size() > 0 {
		t.Errorf("the journal has %d bytes, %v; want none", wal.Size(), err)
	}
	if patience := pages("busy_timeout"); patience != 5000 {
		t.Errorf("a statement waits %d ms for another writer", patience)
	}
}
