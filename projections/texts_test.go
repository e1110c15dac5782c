package projections

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"millrace/projections/view"
	"millrace/task"
)

// A search finds the same as a plain filter, whatever is known of the rows: nothing after a
// restart, then more and more, while the fold continues.
func TestTextsMissNothing(t *testing.T) {
	for seed := range uint64(8) {
		h := newHistory(300+seed, 60)
		h.grow(900)
		path := filepath.Join(t.TempDir(), "read.db")
		searches := func(s *Store, upTo int) {
			part := *h
			part.records = h.records[:upTo]
			folded := slices.Collect(maps.Values(part.folded()))
			for _, text := range []string{"HELLO", "ECHO <hello> \"W", "quoted \"T", "%_", "größe", "all\n", "Craw", "utf8", "nowhere", string(h.tasks[3][5:]), string(h.tasks[7][20:])} {
				f := view.Filter{Text: text, Limit: view.MaxLimit, OldestFirst: h.IntN(2) == 0}
				page, err := s.tasks(t.Context(), f)
				have := make([]task.ID, len(page.Tasks))
				for i := range page.Tasks {
					have[i] = page.Tasks[i].ID
				}
				if slices.Sort(have); err != nil {
					t.Fatal(err)
				}
				same(t, fmt.Sprintf("seed %d, text %q", seed, text), have, nil, folded, func(k *task.Task) bool { return plain(k, &f) })
			}
			for _, k := range folded[:min(len(folded), 8)] {
				for what, f := range map[string]view.Filter{"job": {Job: k.Job}, "schedule": {Schedule: k.Schedule}, "labels": {Labels: k.Labels}} {
					f.Limit = view.MaxLimit
					page, err := s.tasks(t.Context(), f)
					if err != nil {
						t.Fatal(err)
					}
					var have []task.ID
					for i := range page.Tasks {
						have = append(have, page.Tasks[i].ID)
					}
					slices.Sort(have)
					same(t, fmt.Sprintf("seed %d, %s of %s", seed, what, k.ID), have, nil, folded, func(k *task.Task) bool { return plain(k, &f) })
				}
			}
		}
		third := len(h.records) / 3
		s := open(t, path)
		s.texts.full = 1 + h.IntN(12)
		project(t, s, 20, h.records[:third], func() int { return 1 + h.IntN(100) })
		searches(s, third)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = open(t, path)
		s.texts.full = 1 + h.IntN(12)
		searches(s, third)
		for range 3 {
			if _, err := s.indexBlock(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		project(t, s, 20, h.records[:2*third], func() int { return 1 + h.IntN(100) })
		searches(s, 2*third)
		if _, known := rowsIn(&s.texts); known {
			t.Errorf("seed %d: the number of rows is known before all are read", seed)
		}
		if err := s.Index(t.Context()); err != nil {
			t.Fatal(err)
		}
		searches(s, 2*third)
		rows, err := s.ids(t.Context(), "list all", "SELECT id FROM tasks")
		if n, known := rowsIn(&s.texts); err != nil || !known || n != len(rows) {
			t.Errorf("seed %d: %d rows (known: %v, error %v), want %d", seed, n, known, err, len(rows))
		}
		project(t, s, 20, h.records, func() int { return 1 + h.IntN(100) })
		searches(s, len(h.records))
		if spans := s.texts.spans("nowhere"); len(spans) > 0 {
			t.Errorf("seed %d: a text that nothing has may be in %d places", seed, len(spans))
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := s.Index(t.Context()); err != nil && !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	}
}

// rowsIn is how many tasks are in all blocks, and whether that is known.
func rowsIn(x *texts) (n int, known bool) {
	known = true
	for _, b := range x.blocks {
		n, known = n+b.n, known && b.known
	}
	return n, known
}

// A batch that could not be written comes again, and its tasks count once.
func TestTextsOfABatchThatComesAgain(t *testing.T) {
	x := texts{full: 4}
	x.begin(true)
	for _, batch := range [][2]int{{0, 3}, {3, 6}, {3, 6}, {3, 9}, {9, 12}} {
		var all []noted
		for i := batch[0]; i < batch[1]; i++ {
			all = append(all, noted{id: fmt.Sprintf("01J%023d", i), new: true})
		}
		x.note(uint64(batch[0]+1), uint64(batch[1]), all)
		if n, known := rowsIn(&x); n != batch[1] || !known {
			t.Errorf("after %v: %d rows (known: %v), want %d", batch, n, known, batch[1])
		}
	}
}

// A search for jobs that few tasks have reads few places.
func TestFiltersNarrowASearch(t *testing.T) {
	x := texts{full: 100}
	x.begin(true)
	for i := range 5000 {
		var k task.Task
		k.Job = fmt.Sprintf("job-%d", i/1000)
		x.note(uint64(i+1), uint64(i+1), []noted{{id: fmt.Sprintf("01J%023d", i), new: true, has: view.Texts(&k)}})
	}
	for _, c := range []struct {
		what string
		f    view.Filter
		want int // blocks
	}{
		{"a job", view.Filter{Job: "job-3"}, 10},
		{"a job that is not there", view.Filter{Job: "job-7"}, 0},
		{"a job and a text of another", view.Filter{Job: "job-3", Text: "job-4"}, 0},
		{"nothing", view.Filter{Job: "x"}, 50},
	} {
		got := 0
		for _, s := range x.spans(textsIn(&c.f)...) {
			for _, b := range x.blocks {
				if b.first >= s.first && (s.end == "" || b.first < s.end) {
					got++
				}
			}
		}
		if got != c.want {
			t.Errorf("%s may be in %d blocks, want %d", c.what, got, c.want)
		}
	}
}

// A search for a rare text reads few places.
func TestTextsNarrowASearch(t *testing.T) {
	x := texts{full: 100}
	x.begin(true)
	for i := range 5000 {
		x.note(uint64(i+1), uint64(i+1), []noted{{id: fmt.Sprintf("01J%023d", i), new: true, has: [4]string{"crawl", "", fmt.Sprintf("page %d of 5000 was fetched", i), "python3 spider.py --site example"}}})
	}
	x.note(5001, 5001, []noted{{id: fmt.Sprintf("01J%023d", 1234), has: [4]string{2: "Connection REFUSED by 10.0.0.7"}}})
	for text, want := range map[string]int{"connection refused": 1, "REFUSED": 1, "spider": 50, "zebra": 0, "01J00000000000000000001234": 1} {
		got := 0
		for _, s := range x.spans(text) {
			if got++; s.end == "" && s.first == "" {
				got = 50
			}
			for _, b := range x.blocks {
				if b.first > s.first && (s.end == "" || b.first < s.end) {
					got++
				}
			}
		}
		if got = min(got, 50); got != want {
			t.Errorf("%q may be in %d blocks, want %d", text, got, want)
		}
	}
}
