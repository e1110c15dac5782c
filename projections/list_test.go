package projections

import (
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/node"
)

// Lists equal a plain filter over the folds, page by page.
func TestLists(t *testing.T) {
	for seed := range uint64(6) {
		h := newHistory(100+seed, 60)
		h.grow(600)
		s := open(t, "")
		project(t, s, 20, h.records, func() int { return 1 + h.IntN(200) })
		folded := slices.Collect(maps.Values(h.folded()))
		for range 60 {
			f := h.filter()
			var want []task.ID
			for i := range folded {
				if plain(&folded[i], &f) {
					want = append(want, folded[i].ID)
				}
			}
			slices.Sort(want)
			if !f.OldestFirst {
				slices.Reverse(want)
			}
			var have []task.ID
			for {
				page, err := s.tasks(t.Context(), f)
				if err != nil {
					t.Fatal(err)
				}
				for _, row := range page.Tasks {
					have = append(have, row.ID)
				}
				if f.Cursor = page.Next; f.Cursor == "" {
					break
				}
				if len(page.Tasks) != f.Limit {
					t.Fatalf("a page of %d with a next one, limit %d", len(page.Tasks), f.Limit)
				}
			}
			if !slices.Equal(have, want) {
				t.Fatalf("seed %d, filter %+v:\nhave %v\nwant %v", seed, f, have, want)
			}
		}
		before := noon.Add(24 * time.Hour)
		for _, queue := range []string{"default", "gpu", "night", "none"} {
			have, err := s.Waiting(t.Context(), queue, before, "", 1000)
			same(t, "waiting in "+queue, have, err, folded, func(k *task.Task) bool {
				return k.State == task.Pending && k.Route.Queue() == queue && k.Since.Before(before)
			})
		}
		have, err := s.OnNode(t.Context(), node.ID("plain"))
		same(t, "on node", have, err, folded, func(k *task.Task) bool { return k.Live() && k.Node == "plain" })
		have, err = s.Due(t.Context(), before, 1000)
		slices.Sort(have)
		same(t, "due", have, err, folded, func(k *task.Task) bool {
			by := deadlineOf(k)
			return !by.IsZero() && !by.After(before)
		})
	}
}

func same(t *testing.T, what string, have []task.ID, err error, folded []task.Task, keep func(*task.Task) bool) {
	t.Helper()
	var want []task.ID
	for i := range folded {
		if keep(&folded[i]) {
			want = append(want, folded[i].ID)
		}
	}
	slices.Sort(want)
	if err != nil || !slices.Equal(have, want) {
		t.Errorf("%s: %v, want %v; %v", what, have, want, err)
	}
}

func (h *history) filter() view.Filter {
	f := view.Filter{Limit: 1 + h.IntN(20), OldestFirst: h.IntN(2) == 0}
	for range h.IntN(3) {
		f.States = append(f.States, task.States()[h.IntN(len(task.States()))])
	}
	if h.IntN(4) == 0 {
		f.States = task.States()
	}
	f.Roots = h.IntN(5) == 0
	if h.IntN(12) == 0 {
		f.Step = h.text()
	}
	switch h.IntN(10) {
	case 8:
		f.Params = map[string]string{"a": []string{`[1,"}"]`, "x"}[h.IntN(2)]}
	case 7:
		id := string(h.tasks[h.IntN(len(h.tasks))])
		f.IDPart = []string{id[:6], id[20:], id, "ZZZZZZ"}[h.IntN(4)]
	case 0:
		f.Job = "crawl"
	case 1:
		f.Queue = "gpu"
	case 2:
		f.Node = h.text()
	case 3:
		f.Labels = h.labels()
	case 4:
		f.Since = noon.Add(time.Hour)
	case 5:
		f.Until = noon.Add(24 * time.Hour)
	case 6:
		f.Text = []string{"HELLO", "ECHO <hello> \"W", "quoted \"T", "%_", "größe", "all\n", string(h.tasks[3][5:]), "Craw", "utf8"}[h.IntN(9)]
	}
	f.Dead = h.IntN(6) == 0
	if h.IntN(6) == 0 {
		f.Suspect = func(k *task.Task) bool {
			id, _ := node.DependsOn(k)
			return id != "" && k.ID[25] < 'J'
		}
	}
	return f
}

// plain is the meaning of a filter, in the simplest form.
func plain(k *task.Task, f *view.Filter) bool {
	for key, v := range f.Labels {
		if have, ok := k.Labels[key]; !ok || have != v {
			return false
		}
	}
	if v, asked := f.Params["a"]; asked && (v == "x" || string(k.Params) != `{"a": [1, "}"]}`) {
		return false
	}
	command := k.Spec.Text()
	if k.Job != "" && k.Spec != nil && k.Spec.Run != nil && k.Spec.Run.Shell != "" { // a script of a job
		command = ""
	}
	text := false
	for _, part := range []string{string(k.ID), k.Job, k.Step, k.Message, command} {
		text = text || strings.Contains(strings.ToLower(part), strings.ToLower(f.Text))
	}
	return k.State != task.Unknown && text && (f.Suspect == nil || f.Suspect(k)) &&
		(len(f.States) == 0 || slices.Contains(f.States, k.State)) && (!f.Dead || k.State == task.Abnormal && k.Dismissed == nil) &&
		(!f.Roots || k.Parent == "") && (strings.HasPrefix(string(k.ID), f.IDPart) || strings.HasSuffix(string(k.ID), f.IDPart)) &&
		(f.Step == "" || k.Step == f.Step) && (f.Job == "" || k.Job == f.Job) && (f.Node == "" || k.Node == f.Node) &&
		(f.Queue == "" || k.Route.Queue() == f.Queue || k.Route.Selected() && k.QueueName() == f.Queue) &&
		(f.Since.IsZero() || !k.SubmittedAt.Before(f.Since)) &&
		(f.Until.IsZero() || k.SubmittedAt.Before(f.Until))
}

func TestPagesWhileTasksArrive(t *testing.T) {
	s := open(t, "")
	records := noops(t, 300, 10)
	project(t, s, 10, records[:600], all) // 207 tasks
	first, err := s.tasks(t.Context(), view.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	if len(first.Tasks) != view.DefaultLimit || first.Point.Seq != 600 {
		t.Fatalf("a page of %d at %d", len(first.Tasks), first.Point.Seq)
	}
	project(t, s, 10, records[600:], all)
	second, err := s.tasks(t.Context(), view.Filter{Cursor: first.Next})
	if err != nil {
		t.Fatal(err)
	}
	if second.Point.Seq != 900 {
		t.Errorf("the page reflects %d", second.Point.Seq)
	}
	last, next := first.Tasks[len(first.Tasks)-1].ID, second.Tasks[0].ID
	if last[10:] != "0000000000000157" || next[10:] != "0000000000000156" {
		t.Errorf("after %s came %s", last, next)
	}
}

func TestRefusedFilters(t *testing.T) {
	s := open(t, "")
	oldest := view.Filter{OldestFirst: true}
	for _, cursor := range []string{"?", "AAAA", oldest.CursorAfter("01JD6Z8V3M0QK4T7W2X9Y5ABCD"), (&view.Filter{}).CursorAfter("")} {
		if _, err := s.tasks(t.Context(), view.Filter{Cursor: cursor}); !errors.Is(err, view.ErrCursor) {
			t.Errorf("cursor %q: %v", cursor, err)
		}
	}
	for _, limit := range []int{-1, view.MaxLimit + 1} {
		if _, err := s.tasks(t.Context(), view.Filter{Limit: limit}); err == nil {
			t.Errorf("limit %d is taken", limit)
		}
	}
}

// No frequent query sorts, or scans the whole table.
func TestPlans(t *testing.T) {
	s := open(t, "")
	for _, tt := range []struct{ query, want string }{
		{"SELECT id FROM tasks WHERE deadline <= ? ORDER BY deadline LIMIT ?", "USING COVERING INDEX tasks_deadline (deadline<?)"},
		{"SELECT id FROM tasks WHERE queue = ? AND waits < ? ORDER BY id LIMIT ?", "USING COVERING INDEX tasks_waits (queue=?)"},
		{"SELECT doc FROM tasks WHERE waits IS NOT NULL AND queue = ? AND id < ? ORDER BY id DESC", "USING INDEX tasks_waits (queue=? AND id<?)"},
		{"SELECT doc FROM tasks WHERE state = 4 AND " + inStateIndex + " AND id < ? ORDER BY id DESC", "USING INDEX tasks_state (state=? AND id<?)"},
		{"SELECT doc FROM tasks WHERE state <> 0 ORDER BY id DESC", "SCAN tasks"},
		{rowsOfBlock, "(id>? AND id<?)"},
		{"SELECT id FROM tasks WHERE state IN (?, ?) AND " + inStateIndex + " AND node = ?", "USING COVERING INDEX tasks_state (state=?)"},
		{"SELECT doc FROM tasks WHERE dead = 1 AND id < 'x' ORDER BY id DESC", "USING INDEX tasks_dead (dead=? AND id<?)"},
		{"SELECT id FROM tasks WHERE " + onUnknown, "USING COVERING INDEX tasks_state (state=?)"},
	} {
		var plan []string
		err := s.view(t.Context(), "explain", func(tx *sql.Tx, _ uint64) error {
			var a, b, c int
			var detail string
			return each(t.Context(), tx, "EXPLAIN QUERY PLAN "+tt.query, make([]any, strings.Count(tt.query, "?")), []any{&a, &b, &c, &detail}, func() error {
				plan = append(plan, detail)
				return nil
			})
		})
		if text := fmt.Sprint(plan); err != nil || !strings.Contains(text, tt.want) || strings.Contains(text, "TEMP B-TREE") {
			t.Errorf("%s\nplan %s, %v\nwant %s", tt.query, text, err, tt.want)
		}
	}
}

// Readers see whole batches only, and do not disturb the writer.
func TestReadersWhileWriting(t *testing.T) {
	s := open(t, "")
	records := noops(t, 2000, 100)
	ended := make(chan error, 3)
	for range cap(ended) {
		go func() {
			for {
				counts, seq, err := s.Counts(t.Context())
				if err == nil {
					var want, have int
					for _, r := range records[:seq] {
						if r.Kind == events.KindOffer {
							want++
						}
					}
					for _, n := range counts["default"] {
						have += n
					}
					if have != want {
						err = fmt.Errorf("%d tasks at %d, want %d", have, seq, want)
					}
				}
				if err == nil {
					_, err = s.tasks(t.Context(), view.Filter{States: []task.State{task.Pending, task.Running}})
				}
				if err != nil || seq == uint64(len(records)) {
					ended <- err
					return
				}
			}
		}()
	}
	project(t, s, 1000, records, func() int { return 97 })
	for range cap(ended) {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// The kept page of a job's tasks is the page that the rows give, whatever has changed since.
func TestListsOfJobsAreKept(t *testing.T) {
	kept := 0
	for seed := range uint64(4) {
		h := newHistory(700+seed, 40)
		h.grow(500)
		s := open(t, "")
		f, err := newFold(t.Context(), s, DefaultCacheSize)
		if err != nil {
			t.Fatal(err)
		}
		for rest := h.records; len(rest) > 0; {
			n := min(1+h.IntN(4), len(rest))
			if err := f.apply(t.Context(), rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
			q := view.Filter{Job: "crawl", Limit: 1 + h.IntN(3), Roots: h.IntN(2) == 0, OldestFirst: h.IntN(2) == 0}
			list, ok := jobListOf(&q)
			if !ok {
				t.Fatalf("no list of a job: %+v", q)
			}
			if _, _, is := s.jobs.get(list, s.Reached()); is {
				kept++
			}
			have, err := s.tasks(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			want, err := s.inRows(t.Context(), q, "", q.Limit)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(have, want) {
				t.Fatalf("seed %d at %d, %+v:\nhave %+v\nwant %+v", seed, s.Reached(), q, have, want)
			}
		}
		if err := f.w.close(); err != nil {
			t.Fatal(err)
		}
	}
	if kept == 0 {
		t.Error("no page was kept")
	}
}

// A page that is read while its job's changes are no longer noted is not kept.
func TestJobListsForget(t *testing.T) {
	var j jobLists
	j.reset()
	crawl, page := jobList{job: "crawl"}, view.Page{Tasks: make([]task.Task, 2), Point: view.Point{Seq: 5}}
	_, age, _ := j.get(crawl, 5)
	j.reset()
	j.put(crawl, page, age)
	if _, _, ok := j.get(crawl, 5); ok {
		t.Error("a page is kept whose changes were missed")
	}
	for i := range 2 * mostListedJobs {
		list := jobList{job: fmt.Sprint("job", i)}
		_, age, _ := j.get(list, 5)
		j.put(list, view.Page{Tasks: make([]task.Task, 50)}, age)
		if j.tasks > mostListedTasks || len(j.changed) > mostListedJobs {
			t.Fatalf("%d tasks are kept, of %d jobs", j.tasks, len(j.changed))
		}
	}
	_, age, _ = j.get(crawl, 5)
	j.put(crawl, page, age)
	j.note([]change{{task: task.Task{Work: task.Work{Job: "other"}}}}, 7)
	have, _, ok := j.get(crawl, 7)
	if !ok || have.Point.Seq != 7 || len(have.Tasks) != 2 {
		t.Errorf("after another job's change: %v, %v", have, ok)
	}
	j.note([]change{{task: task.Task{Work: task.Work{Job: "other"}}, was: "crawl"}}, 8)
	if _, _, ok := j.get(crawl, 8); ok {
		t.Error("a task has left the job, and its page is kept")
	}
}

// What has ended in a queue has no index of its own, and would be looked for among all that ended so.
func TestNumbers(t *testing.T) {
	for _, c := range []struct {
		f    view.Filter
		want bool
	}{
		{view.Filter{}, false},
		{view.Filter{Queue: "q"}, false},
		{view.Filter{Queue: "q", States: []task.State{task.Pending}}, false},
		{view.Filter{Queue: "q", Dead: true}, false},
		{view.Filter{States: []task.State{task.Error}}, false},
		{view.Filter{Queue: "q", States: []task.State{task.Retrying, task.Error}}, true},
		{view.Filter{Job: "j"}, true},
	} {
		if is := numbers(&c.f); is != c.want {
			t.Errorf("%+v is for the index: %v, want %v", c.f, is, c.want)
		}
	}
}
