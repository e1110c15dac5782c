package view

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/task/queue"
	reason "millrace/task/value"
)

// tale is a log with facts of each kind.
func tale(t *testing.T) (s *story, a, b task.ID) {
	s = &story{t: t}
	s.ready("n1", "images", nil) // 1 to 3
	a = s.submit(birth.Submission{Queue: "images", Labels: map[string]string{"of": "acme"}})
	b = s.submit(birth.Submission{Queue: "bulk"})
	epoch := s.start(a, "n1") // 6
	s.add(events.KindQueue, events.Fact{Queue: "bulk", Event: queue.Paused{Reason: "too loud"}})
	s.finish(a, epoch) // 8
	s.add(events.KindDefinition, events.Fact{Def: "job.hello", Event: task.DefinitionApplied{Edition: task.Edition{Revision: 1, Text: []byte(`{}`)}}})
	s.add(events.KindProbe, events.Fact{})
	s.records = append(s.records, events.Record{Seq: 11, Stored: s.now(), Kind: events.KindChain, Err: errors.New("no JSON"), Raw: []byte("???")})
	s.node("n1", node.WentOffline{Session: "s-n1"})
	s.add(events.KindDead, events.Fact{Message: 11, Event: task.MessageDismissed{}})
	return s, a, b
}

// The world at a sequence is the same with and without the rest of the log, and lists agree with
// single questions.
func TestPastIsItsPrefix(t *testing.T) {
	s, _, _ := tale(t)
	for seq := range uint64(len(s.records)) {
		cut, full := Past(s.records[:seq+1], Moment{}), s.at(seq+1)
		for kind := Tasks; kind <= Messages; kind++ {
			want, err := cut.List(t.Context(), Query{Kind: kind})
			have, err2 := full.List(t.Context(), Query{Kind: kind})
			if err != nil || err2 != nil || !reflect.DeepEqual(have, want) {
				t.Fatalf("%s at %d: %+v, %v; want %+v, %v", kind, seq+1, have, err2, want, err)
			}
			for i := range want.Tasks {
				if k, err := GetTask(t.Context(), full, want.Tasks[i].ID); err != nil || !reflect.DeepEqual(k, want.Tasks[i]) {
					t.Errorf("task at %d: %+v, %v; the list has %+v", seq+1, k, err, want.Tasks[i])
				}
			}
			for i := range want.Nodes {
				if n, err := GetNode(t.Context(), full, want.Nodes[i].ID); err != nil || !reflect.DeepEqual(n, want.Nodes[i]) {
					t.Errorf("node at %d: %+v, %v; the list has %+v", seq+1, n, err, want.Nodes[i])
				}
			}
			for i := range want.Queues {
				if q, err := GetQueue(t.Context(), full, want.Queues[i].Name); err != nil || !reflect.DeepEqual(q, want.Queues[i]) {
					t.Errorf("queue at %d: %+v, %v; the list has %+v", seq+1, q, err, want.Queues[i])
				}
			}
			for def, d := range want.Definitions {
				if item, err := full.Get(t.Context(), Definition(def)); err != nil || !reflect.DeepEqual(*item.Definition, d) {
					t.Errorf("%s at %d: %+v, %v; the list has %+v", def, seq+1, item.Definition, err, d)
				}
			}
		}
	}
}

func TestPast(t *testing.T) {
	s, a, b := tale(t)
	for _, c := range []struct {
		seq   uint64
		what  string
		is    func(w *World) any
		value any
	}{
		{3, "task before its birth", func(w *World) any { _, err := GetTask(t.Context(), w, a); return errors.Is(err, task.ErrUnknown) }, true},
		{4, "state", func(w *World) any { k, _ := GetTask(t.Context(), w, a); return k.State }, task.Pending},
		{5, "birth of the other one", func(w *World) any { k, _ := GetTask(t.Context(), w, b); return k.State }, task.Pending},
		{5, "its attempt", func(w *World) any { k, _ := GetTask(t.Context(), w, a); return k.Attempt }, 0},
		{6, "its attempt", func(w *World) any { k, _ := GetTask(t.Context(), w, a); return k.Attempt }, 1},
		{6, "counts", func(w *World) any { c, _ := w.Count(t.Context(), Query{Kind: Tasks}); return c.Of },
			map[string]map[task.State]int{"images": {task.Running: 1}, "bulk": {task.Pending: 1}}},
		{8, "states", func(w *World) any { c, _ := w.Count(t.Context(), Query{Kind: Tasks}); return c.States() }, map[task.State]int{task.Finished: 1, task.Pending: 1}},
		{8, "those of a queue", func(w *World) any {
			c, _ := w.Count(t.Context(), Query{Kind: Tasks, Filter: Filter{Queue: "bulk"}})
			return c.All()
		}, 1},
		{8, "what was said of it", func(w *World) any { q, _ := GetQueue(t.Context(), w, "bulk"); return q.Paused.Reason }, "too loud"},
		{6, "what was said before", func(w *World) any { q, _ := GetQueue(t.Context(), w, "bulk"); return q.Paused == nil }, true},
		{8, "definition before", func(w *World) any { i, _ := w.Get(t.Context(), Definition("job.hello")); return i.Definition.Exists() }, false},
		{9, "definition", func(w *World) any { i, _ := w.Get(t.Context(), Definition("job.hello")); return i.Definition.Revision }, uint64(1)},
		{11, "message", func(w *World) any { p, _ := w.List(t.Context(), Query{Kind: Messages}); return len(p.Messages) }, 1},
		{11, "messages before it", func(w *World) any {
			p, _ := w.List(t.Context(), Query{Kind: Messages, Before: 11})
			return len(p.Messages)
		}, 0},
		{13, "message, dismissed", func(w *World) any { p, _ := w.List(t.Context(), Query{Kind: Messages}); return len(p.Messages) }, 0},
		{11, "node", func(w *World) any { n, _ := GetNode(t.Context(), w, "n1"); return n.State }, node.Ready},
		{12, "node, gone", func(w *World) any { n, _ := GetNode(t.Context(), w, "n1"); return n.State }, node.Offline},
		{2, "point", func(w *World) any { p, _ := w.Point(t.Context()); return p }, Point{2, noon.Add(time.Second)}},
		{99, "point behind the end", func(w *World) any { p, _ := w.Point(t.Context()); return p.Seq }, uint64(13)},
		{5, "facts", func(w *World) any { all, _ := All(t.Context(), w, Task(a)); return len(all) }, 1},
		{13, "facts", func(w *World) any { all, _ := All(t.Context(), w, Task(a)); return len(all) }, 3},
		{13, "some facts", func(w *World) any {
			n := 0
			_ = w.Records(t.Context(), Task(a), Range{From: 5, To: 7}, func(*events.Record) error { n++; return nil })
			return n
		}, 1},
	} {
		t.Run(fmt.Sprintf("%s at %d", c.what, c.seq), func(t *testing.T) {
			if have := c.is(s.at(c.seq)); !reflect.DeepEqual(have, c.value) {
				t.Errorf("%v, want %v", have, c.value)
			}
		})
	}
}

// A log ends at sequence 14, at noon.
func TestReached(t *testing.T) {
	for _, c := range []struct {
		moment Moment
		want   string // the error; "" for none
	}{
		{Moment{}, ""},
		{Moment{Seq: 1}, ""},
		{Moment{Seq: 14}, ""},
		{Moment{Seq: 15}, "there is no sequence 15 yet: the log ends at 14"},
		{Moment{At: noon.Add(-time.Hour)}, ""},
		{Moment{At: noon.Add(mayDiffer)}, ""}, // by another clock it may have passed
		{Moment{At: noon.Add(mayDiffer + 1)}, "2026-08-01 12:01:00.000 has not come yet"},
		{Moment{Seq: 14, At: noon.Add(time.Hour)}, ""}, // the sequence goes before
	} {
		err := c.moment.Reached(14, noon)
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, ErrNotYet) || !errors.Is(err, ErrQuery) || err.Error() != c.want) {
			t.Errorf("%+v: %v, want %q", c.moment, err, c.want)
		}
	}
}

func TestMoments(t *testing.T) {
	// The log's clock was set back behind the second message.
	var records []events.Record
	for i, second := range []int{0, 2, 1, 1, 3} {
		records = append(records, events.Record{Seq: uint64(10 + i), Stored: noon.Add(time.Duration(second) * time.Second)})
	}
	for _, c := range []struct {
		name   string
		moment Moment
		seq    uint64
	}{
		{"the end", Moment{}, 14},
		{"a sequence", Moment{Seq: 12}, 12},
		{"a sequence before a gap", Moment{Seq: 9}, 0},
		{"a sequence goes before a time", Moment{Seq: 11, At: noon}, 11},
		{"a time", Moment{At: noon}, 10},
		{"a time between", Moment{At: noon.Add(1500 * time.Millisecond)}, 10},
		{"that of the latest before", Moment{At: noon.Add(2 * time.Second)}, 13},
		{"before the beginning", Moment{At: noon.Add(-time.Second)}, 0},
	} {
		if p, err := Past(records, c.moment).Point(t.Context()); err != nil || p.Seq != c.seq {
			t.Errorf("%s: %d, %v; want %d", c.name, p.Seq, err, c.seq)
		}
	}
}

func TestPages(t *testing.T) {
	s := &story{t: t}
	var ids []task.ID
	for range 7 {
		ids = append(ids, s.submit(birth.Submission{}))
	}
	for _, oldest := range []bool{true, false} {
		want := slices.Clone(ids)
		if !oldest {
			slices.Reverse(want)
		}
		var have []task.ID
		q := Query{Kind: Tasks, Filter: Filter{Limit: 3, OldestFirst: oldest}}
		for {
			page, err := s.end().List(t.Context(), q)
			if err != nil || len(page.Tasks) > 3 {
				t.Fatalf("a page of %d, %v", len(page.Tasks), err)
			}
			for i := range page.Tasks {
				have = append(have, page.Tasks[i].ID)
			}
			if page.Next == "" {
				break
			}
			q.Cursor = page.Next
		}
		if !slices.Equal(have, want) {
			t.Errorf("oldest first %v: %v, want %v", oldest, have, want)
		}
	}
	newest, oldest := Filter{}, Filter{OldestFirst: true}
	for name, q := range map[string]Query{
		"no cursor":                 {Kind: Tasks, Filter: Filter{Cursor: "?"}},
		"a cursor of another order": {Kind: Tasks, Filter: Filter{Cursor: oldest.CursorAfter(ids[0])}},
		"a cursor without a task":   {Kind: Tasks, Filter: Filter{Cursor: newest.CursorAfter("")}},
		"a limit below 1":           {Kind: Tasks, Filter: Filter{Limit: -1}},
		"a limit above 1000":        {Kind: Tasks, Filter: Filter{Limit: 1001}},
		"a kind that is none":       {Kind: 99},
		"what has not happened":     {Kind: Tasks, AtLeast: 8},
	} {
		if _, err := s.end().List(t.Context(), q); !errors.Is(err, ErrQuery) {
			t.Errorf("%s: %v, want a refusal", name, err)
		}
	}
}

func TestMatch(t *testing.T) {
	gpu, err := placement.ParseSelector("gpu")
	if err != nil {
		t.Fatal(err)
	}
	chosen := job.Spec{Handler: "x"}
	chosen.Place.Labels = gpu
	s := &story{t: t}
	a := s.submit(birth.Submission{Queue: "images", Labels: map[string]string{"of": "acme"}})
	b := s.submit(birth.Submission{Spec: &chosen, Queue: "images"})
	c := s.submit(birth.Submission{Nodes: []string{"n1"}, Spec: &job.Spec{Run: &job.Run{Argv: []string{"echo", "Größe"}}}})
	s.start(c, "n1")
	s.on(a, task.GivenUp{Reason: reason.Expired})
	all := []task.ID{a, b, c}
	for _, row := range []struct {
		name string
		f    Filter
		want []task.ID
	}{
		{"nothing", Filter{}, all},
		{"states", Filter{States: []task.State{task.Pending, task.Running}}, []task.ID{b, c}},
		{"dead", Filter{Dead: true}, []task.ID{a}},
		{"dead, and of their state", Filter{Dead: true, States: []task.State{task.Running, task.Abnormal}}, []task.ID{a}},
		{"dead, and of another state", Filter{Dead: true, States: []task.State{task.Running}}, nil},
		{"suspect", Filter{Suspect: func(*task.Task) bool { return true }}, []task.ID{b, c}},
		{"queue, and what waits for nodes of it", Filter{Queue: "images"}, []task.ID{a, b}},
		{"the route of a selector", Filter{Queue: placement.SelectorQueue("images", gpu)}, []task.ID{b}},
		{"node", Filter{Node: "n1"}, []task.ID{c}},
		{"label", Filter{Labels: map[string]string{"of": "acme"}}, []task.ID{a}},
		{"a label's other value", Filter{Labels: map[string]string{"of": "other"}}, nil},
		{"beginning of the id", Filter{IDPart: string(a)[:8]}, all},
		{"end of the id", Filter{IDPart: string(b)[20:]}, []task.ID{b}},
		{"text in either case", Filter{Text: "ECHO"}, []task.ID{c}},
		{"text beyond ASCII as it is", Filter{Text: "GRÖSSE"}, nil},
		{"since", Filter{Since: noon.Add(time.Second)}, []task.ID{b, c}},
		{"until", Filter{Until: noon.Add(time.Second)}, []task.ID{a}},
		{"priority", Filter{Priorities: []int{placement.DefaultPriority + 1}}, nil},
		{"job", Filter{Job: "resize"}, nil},
		{"schedule", Filter{Schedule: "nightly"}, nil},
		{"step", Filter{Step: "load"}, nil},
		{"batch", Filter{Batch: "b"}, nil},
		{"roots", Filter{Roots: true}, all},
	} {
		row.f.OldestFirst = true
		page, err := s.end().List(t.Context(), Query{Kind: Tasks, Filter: row.f})
		var have []task.ID
		for i := range page.Tasks {
			have = append(have, page.Tasks[i].ID)
		}
		if err != nil || !slices.Equal(have, row.want) {
			t.Errorf("%s: %v, %v; want %v", row.name, have, err, row.want)
		}
	}
}

// An unfolded model refuses to list or count, instead of answering none. Single subjects can be
// asked for.
func TestUnfolded(t *testing.T) {
	s, a, _ := tale(t)
	w := At(Unfolded{Seq: 6, At: noon.Add(5 * time.Second)}, Slice(s.records).About, 6)
	if _, err := w.List(t.Context(), Query{Kind: Tasks}); !errors.Is(err, ErrQuery) {
		t.Errorf("a list: %v", err)
	}
	if _, err := w.Count(t.Context(), Query{Kind: Tasks}); !errors.Is(err, ErrQuery) {
		t.Errorf("a count: %v", err)
	}
	if k, err := GetTask(t.Context(), w, a); err != nil || k.State != task.Running {
		t.Errorf("%+v, %v", k, err)
	}
	if p, err := w.Point(t.Context()); err != nil || p.Seq != 6 {
		t.Errorf("%+v, %v", p, err)
	}
}
