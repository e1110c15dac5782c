package projections

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"millrace/events"
	"millrace/internal/testkit"
	"millrace/projections/past"
	"millrace/projections/view"
	"millrace/task"
)

// The task test:long plays 16, a night 64 (task test:nightly).
var pasts = flag.Uint64("pasts", 4, "how many histories TestPastTells plays")

// At any sequence the index of the past answers like the plain fold up to there, over restarts and
// for any batches.
func TestPastTells(t *testing.T) {
	for seed := range *pasts {
		h := newHistory(900+seed, 40)
		path := filepath.Join(t.TempDir(), "read.db")
		for done := 0; done < 500; done = len(h.records) {
			for range 120 {
				h.add()
				h.sum()
			}
			s, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			few := past.UsualBounds
			if done > 0 { // small bounds, to match the small log
				few = past.Bounds{Block: 1 + h.IntN(400), Frame: int64(h.IntN(600)), Part: 4, Frames: 1 << (8 + h.IntN(8)), Scenes: 1 + h.IntN(3), Tasks: h.IntN(200), Near: int64(h.IntN(2000)), Few: h.IntN(40)}
			}
			rebound(t, s, few)
			project(t, s, 20, h.records[done:], func() int { return 1 + h.IntN(40) })
			for range 6 {
				pastAgrees(t, s, h, 1+h.IntN(len(h.records)))
			}
			presentAgrees(t, s, h)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// rebound opens the index of a store anew, with other bounds.
func rebound(tb testing.TB, s *Store, bounds past.Bounds) {
	tb.Helper()
	err := s.past.Close()
	if err == nil {
		var p position
		if err = p.load(tb.Context(), s.read); err == nil {
			s.past, err = past.Open(s.pastPath(p.Trims), bounds, s.reach.damage)
		}
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// Several goroutines query any moments in any order while the fold continues.
func TestPastIsAskedByMany(t *testing.T) {
	h := newHistory(77, 40)
	for range 300 {
		h.add()
		h.sum()
	}
	s, half := open(t, ""), len(h.records)/2
	few := past.UsualBounds
	few.Block, few.Frame, few.Near = 300, 900, 1000
	rebound(t, s, few)
	project(t, s, 20, h.records[:half], all)
	var asking sync.WaitGroup
	for i := range uint64(4) {
		own := &history{Rand: rand.New(rand.NewPCG(i, 2)), tasks: h.tasks, records: h.records}
		asking.Go(func() {
			for range 6 {
				pastAgrees(t, s, own, 1+own.IntN(half))
			}
		})
	}
	project(t, s, 20, h.records[half:], func() int { return 7 })
	asking.Wait()
}

// pastAgrees compares the index with the fold at the place behind the first n records.
func pastAgrees(t *testing.T, s *Store, h *history, n int) {
	t.Helper()
	memory := view.NewMemory()
	for i := range h.records[:n] {
		memory.Add(&h.records[i])
	}
	h.remember(memory)
	at, err := memory.Point(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	past, _ := s.At(at, h).(*then)
	earlier := view.NewMemory()
	for i := range h.records[:1+h.cut+h.IntN(n-h.cut)] {
		earlier.Add(&h.records[i])
	}
	h.remember(earlier)
	for i := range 20 {
		q := view.Query{Kind: view.Tasks, Filter: h.filter()}
		q.Suspect = nil // not known about the past
		if i%2 == 0 {
			h.words(&q.Filter)
		}
		textRefused(t, past, &q)
		have, err := past.List(t.Context(), q)
		want, err2 := memory.List(t.Context(), q)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		if have, want := briefly(&have), briefly(&want); !reflect.DeepEqual(have, want) {
			t.Fatalf("at %d, %+v:\nhave %v\nwant %v", at.Seq, q.Filter, have, want)
		}
		counts, err := past.Count(t.Context(), q)
		plain, err2 := memory.Count(t.Context(), q)
		if err := errors.Join(err, err2); err != nil || !reflect.DeepEqual(counts, plain) {
			t.Fatalf("at %d, %+v: %v, %v, want %v", at.Seq, q.Filter, err, counts, plain)
		}
		runs, err := past.Runs(t.Context(), q.Filter)
		ran, err2 := memory.Runs(t.Context(), q.Filter)
		if err := errors.Join(err, err2); err != nil || !slices.Equal(runs, ran) {
			t.Fatalf("at %d, %+v: %v, %v, want %v", at.Seq, q.Filter, err, runs, ran)
		}
		most := 1 + h.IntN(20)
		stepsAgree(t, s, past, earlier, memory, h, q.Filter, most)
	}
	subjectsAgree(t, past, memory, h, n)
	failuresAgree(t, past, memory)
	tracesAgree(t, past, memory, h, n)
	states, err := past.States(t.Context(), h.tasks)
	if want, err2 := memory.States(t.Context(), h.tasks); err != nil || err2 != nil || !reflect.DeepEqual(states, want) {
		t.Fatalf("at %d: %v, %v, %v, want %v", at.Seq, err, err2, states, want)
	}
	since := at.At.Add(-1e12)
	if have, want := sumsOf(t, past, since), sumsOf(t, memory, since); !reflect.DeepEqual(have, want) {
		t.Fatalf("at %d:\n%v\nwant\n%v", at.Seq, have, want)
	}
}

// textRefused wants that no text is searched in the past, and takes it out of the query.
func textRefused(t *testing.T, past view.Whole, q *view.Query) {
	t.Helper()
	if q.Text == "" {
		return
	}
	_, listed := past.List(t.Context(), *q)
	_, counted := past.Count(t.Context(), *q)
	_, stepped := past.Steps(t.Context(), past, q.Filter, 1)
	if !errors.Is(listed, view.ErrUnindexed) || !errors.Is(counted, view.ErrUnindexed) || !errors.Is(stepped, view.ErrUnindexed) {
		t.Fatalf("text %q: %v, %v, %v", q.Text, listed, counted, stepped)
	}
	q.Text = ""
}

// stepsAgree compares the tasks of which the index says that their states have changed since an earlier
// place with those of which two folds do.
func stepsAgree(t *testing.T, s *Store, past view.Whole, earlier, memory *view.Memory, h *history, f view.Filter, most int) {
	t.Helper()
	at, err := earlier.Point(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	was, err := earlier.States(t.Context(), h.tasks)
	f.Limit, f.OldestFirst = view.MaxLimit, true // there are fewer tasks
	page, err2 := memory.List(t.Context(), view.Query{Kind: view.Tasks, Filter: f})
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	of, first := map[[2]task.State]int{}, []string{}
	for _, is := range page.Tasks {
		if was[is.ID] == is.State {
			continue
		}
		if of[[2]task.State{was[is.ID], is.State}]++; len(first) < most {
			first = append(first, fmt.Sprint(is.ID, was[is.ID], is.State))
		}
	}
	steps, err := past.Steps(t.Context(), s.At(at, h), f, most)
	named := []string{}
	for i := range steps.First {
		named = append(named, fmt.Sprint(steps.First[i].ID, steps.Was[i], steps.First[i].State))
	}
	if err != nil || !maps.Equal(steps.Of, of) || !slices.Equal(named, first) {
		t.Fatalf("since %d, %+v: %v, %v, %v, want %v, %v", at.Seq, f, err, steps.Of, named, of, first)
	}
}

// subjectsAgree compares what the index tells of nodes, queues and definitions with the fold, and with
// the records about them.
func subjectsAgree(t *testing.T, past *then, memory *view.Memory, h *history, n int) {
	t.Helper()
	subjects := map[view.Ref]bool{view.Node("nowhere"): true, view.Queue("nothing"): true, view.Definition("job.none"): true}
	for i := range h.records {
		switch ref := view.RefOf(&h.records[i]); ref.Kind {
		case view.Nodes, view.Queues, view.Definitions:
			subjects[ref] = true
		}
	}
	for _, q := range []view.Query{{Kind: view.Nodes}, {Kind: view.Queues}, {Kind: view.Definitions}, {Kind: view.Definitions, Of: task.DefJob}} {
		have, err := past.List(t.Context(), q)
		want, err2 := memory.List(t.Context(), q)
		if err := errors.Join(err, err2); err != nil || !reflect.DeepEqual(have, want) {
			t.Fatalf("at %d, %s %s: %v\nhave %+v\nwant %+v", h.records[n-1].Seq, q.Kind, q.Of, err, have, want)
		}
	}
	for ref := range subjects {
		var want []events.Record
		for i := range h.records[:n] {
			if view.RefOf(&h.records[i]) == ref {
				want = append(want, h.records[i])
			}
		}
		about, err := past.about(t.Context(), ref)
		kept := want
		for ref.Kind != view.Definitions && len(kept) > 0 && kept[0].Seq < h.records[h.cut].Seq {
			kept = kept[1:]
		}
		if err != nil || len(about)+len(kept) > 0 && !reflect.DeepEqual(about, kept) {
			t.Fatalf("at %d, %s: %v\nhave %+v\nwant %+v", h.records[n-1].Seq, ref, err, about, want)
		}
		if is, err := past.subject(t.Context(), ref); err != nil || !reflect.DeepEqual(is, view.Fold(ref, want)) {
			t.Fatalf("at %d, %s: %v\nhave %+v\nwant %+v", h.records[n-1].Seq, ref, err, is, view.Fold(ref, want))
		}
	}
}

// words adds labels and a text to a filter, in place of all that only few tasks match.
func (h *history) words(f *view.Filter) {
	*f = view.Filter{Limit: f.Limit, OldestFirst: f.OldestFirst, Roots: f.Roots, Since: f.Since, Until: f.Until}
	if h.IntN(2) == 0 {
		f.Labels = h.labels()
	}
	if f.Labels == nil || h.IntN(2) == 0 {
		f.Text = []string{"hello", "e", "a", "plain", "quoted", "done", "ö", "utf8", "\ufffd", "\x1f", " \"w", "k\n", "\n", "crawl", "\u2028", "world\"", "noop", string(h.tasks[h.IntN(len(h.tasks))][20:]), "qx", "steps"}[h.IntN(20)]
	}
	if h.IntN(3) == 0 {
		f.States = []task.State{task.States()[h.IntN(len(task.States()))]}
	}
}

// presentAgrees compares lists and counts of the present with the fold of all records.
func presentAgrees(t *testing.T, s *Store, h *history) {
	t.Helper()
	memory := view.NewMemory()
	for i := range h.records {
		memory.Add(&h.records[i])
	}
	h.remember(memory)
	for range 20 {
		q := view.Query{Kind: view.Tasks, Filter: h.filter()}
		if q.Suspect = nil; h.IntN(4) > 0 {
			h.words(&q.Filter)
		}
		have, err := s.List(t.Context(), q)
		want, err2 := memory.List(t.Context(), q)
		have.Point, want.Point = view.Point{}, view.Point{}
		if have, want := briefly(&have), briefly(&want); errors.Join(err, err2) != nil || !reflect.DeepEqual(have, want) {
			t.Fatalf("%+v, %v, %v:\nhave %v\nwant %v", q.Filter, err, err2, have, want)
		}
		counts, err := s.Count(t.Context(), q)
		plain, err2 := memory.Count(t.Context(), q)
		if errors.Join(err, err2) != nil || !reflect.DeepEqual(counts.States(), plain.States()) {
			t.Fatalf("%+v, %v, %v: %v, want %v", q.Filter, err, err2, counts.Of, plain.Of)
		}
	}
}

// briefly summarizes a page for comparison.
func briefly(p *view.Page) (all []string) {
	for i := range p.Tasks {
		all = append(all, fmt.Sprint(p.Tasks[i].ID, p.Tasks[i].Seq, p.Tasks[i].State, p.Tasks[i].Head))
	}
	return append(all, p.Next, fmt.Sprint(p.Point))
}

// unread is a log that is not to be read.
type unread struct{ t *testing.T }

func (l unread) About(context.Context, view.Ref) ([]events.Record, error) {
	l.t.Error("the log is read")
	return nil, nil
}

func (l unread) Messages(context.Context, []uint64) ([]events.Record, error) {
	l.t.Error("messages are read")
	return nil, nil
}

// What figures of jobs need comes from the index alone, also of tasks that have changed since.
func TestRunsComeFromTheIndex(t *testing.T) {
	records := noops(t, 300, 10)
	s := open(t, "")
	project(t, s, 20, records, all)
	tx, err := s.write.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.Exec("DELETE FROM tasks"); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	for _, f := range []view.Filter{{Limit: 50}, {Job: "none"}, {States: []task.State{task.Finished}, Limit: 200}, {Roots: true, OldestFirst: true}} {
		at, memory := records[len(records)/2], view.NewMemory()
		for i := range records[:len(records)/2+1] {
			memory.Add(&records[i])
		}
		have, err := view.Runs(t.Context(), s.At(view.Point{Seq: at.Seq, At: at.Stored}, unread{t}), f)
		want, err2 := memory.Runs(t.Context(), f)
		if err := errors.Join(err, err2); err != nil || !slices.Equal(have, want) {
			t.Errorf("%+v: %v, %v, want %v", f, err, have, want)
		}
		if f.Limit > 0 && !slices.ContainsFunc(have, func(run view.Run) bool { return run.Ran > 0 }) {
			t.Errorf("%+v: none of %d ran", f, len(have))
		}
	}
}

// asked is a log that counts how often messages are asked for.
type asked struct {
	view.Slice
	n int
}

func (l *asked) Messages(ctx context.Context, seqs []uint64) ([]events.Record, error) {
	l.n++
	return l.Slice.Messages(ctx, seqs)
}

// The tasks of a page are read at once, however far they lie from each other.
func TestRareTasksAreReadAtOnce(t *testing.T) {
	born := 0
	records := noops(t, 600, 600, func(w *task.Work) {
		if born++; born%40 == 0 {
			w.Labels = map[string]string{"tenant": "t7"}
		}
	})
	s := open(t, "")
	few := past.UsualBounds
	few.Block = 300
	rebound(t, s, few)
	project(t, s, 20, records, all)
	log := &asked{Slice: records}
	past := s.At(view.Point{Seq: records[599].Seq, At: records[599].Stored}, log)
	rare := view.Query{Kind: view.Tasks, Filter: view.Filter{Labels: map[string]string{"tenant": "t7"}, Limit: 12}}
	if page, err := past.List(t.Context(), rare); err != nil || len(page.Tasks) != 12 || page.Tasks[0].State != task.Pending || log.n != 1 {
		t.Errorf("%v: %d tasks with %d questions, want 12 with one", err, len(page.Tasks), log.n)
	}
	log.n = 0
	if counts, err := past.Count(t.Context(), rare); err != nil || counts.All() != 15 || log.n > 0 {
		t.Errorf("%v: %d tasks are counted with %d questions, want 15 with none", err, counts.All(), log.n)
	}
}

// If the index is lost or does not match, the read model is rebuilt.
func TestPastIsMadeAgain(t *testing.T) {
	records := noops(t, 50, 10)
	for name, spoil := range map[string]func(t *testing.T, path string, index []byte){
		"lost":    func(t *testing.T, path string, _ []byte) { remove(t, path) },
		"cut":     func(t *testing.T, path string, index []byte) { overwrite(t, path, index[:len(index)/2]) },
		"changed": func(t *testing.T, path string, index []byte) { index[len(index)/3] ^= 0x10; overwrite(t, path, index) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "read.db")
			s, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			project(t, s, 10, records, all)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			index, err := os.ReadFile(path + pastSuffix)
			if err != nil {
				t.Fatal(err)
			}
			spoil(t, path+pastSuffix, append([]byte{}, index...))

			s = open(t, path)
			stop := start(t, &Projector{Log: &recorded{records: records}, Store: s})
			defer stop()
			// The fold may be through before the test looks, and brings no news then.
			testkit.Eventually(t, "a notice", func() bool { return len(s.Notices()) > 0 })
			await(t, s, uint64(len(records)))
			if notices := strings.Join(s.Notices(), "\n"); !strings.Contains(notices, "index of the past") {
				t.Errorf("notices %q", notices)
			}
			again, err := os.ReadFile(path + pastSuffix)
			if err != nil || string(again) != string(index) {
				t.Errorf("%v; the index has %d bytes, had %d", err, len(again), len(index))
			}
		})
	}
}

// A read model that another version has written is made again from its log, as is a damaged one. Then it
// tells what every node, queue and definition was at any moment, also before that.
func TestPastOfSubjectsAfterRebuild(t *testing.T) {
	h := newHistory(31, 20)
	for range 150 {
		h.add()
		h.sum()
	}
	path, half := filepath.Join(t.TempDir(), "read.db"), len(h.records)/2
	again := func(records []events.Record) *Store {
		s, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		project(t, s, 20, records, func() int { return 1 + h.IntN(40) })
		return s
	}
	s := again(h.records[:half])
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	pragma(t, path, "user_version = 99")
	s = again(h.records)
	for _, n := range []int{1, half / 2, half, len(h.records)} {
		pastAgrees(t, s, h, n)
	}
	if err := s.rebuild("for a test"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = again(h.records)
	defer s.Close()
	for _, n := range []int{1, half, len(h.records)} {
		pastAgrees(t, s, h, n)
	}
}
