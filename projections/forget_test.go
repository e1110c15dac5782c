package projections

import (
	"errors"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"millrace/internal/testkit"
	"millrace/projections/past"
	"millrace/projections/view"
	"millrace/task"
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
	if !reflect.DeepEqual(have, want) {
		t.Fatalf("%d rows, want %d", len(have), len(want))
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
