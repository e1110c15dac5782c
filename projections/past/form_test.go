package past

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"millrace/events"
	"millrace/projections/view"
	"millrace/task"
)

// Wherever a read of the index ends, no part of an incomplete entry is used, and no entry is used
// twice.
func TestPastIsReadInParts(t *testing.T) {
	w := &writer{}
	is := task.Task{ID: "01JNAT00000000000000000005", State: task.Pending, Node: strings.Repeat("n", 300)}
	is.Labels = map[string]string{"zone": "eu"}
	c := &Move{Task: &is, Of: new(Indexed)}
	w.note(&events.Record{Seq: 7}, c)
	is.State = task.Running
	w.note(&events.Record{Seq: 1 << 40}, c)
	w.other(&events.Record{Seq: 1<<40 + 1, Kind: events.KindLimit, Fact: events.Fact{Event: task.Granted{Grants: []task.Grant{{Task: "a", Turn: 9, Rated: 300}}}}})
	other := &Move{Task: &task.Task{ID: "01JNAT00000000000000000099", State: task.Held}, Of: new(Indexed)}
	w.note(&events.Record{Seq: 1<<40 + 2}, other)
	told := func(parts ...[]byte) (all []string) {
		s := scanner{until: math.MaxUint64}
		s.birth = func(n uint32, id []byte) { all = append(all, fmt.Sprint("birth ", n, string(id))) }
		s.from = func(n, of uint32, submitted, tick int64) {
			all = append(all, fmt.Sprint("from ", n, of, submitted, tick))
		}
		s.move = func(n, to uint32, since int64) { all = append(all, fmt.Sprint("move ", n, s.seq, s.places[to], since)) }
		s.note = func(r *reader) { all = append(all, fmt.Sprint("note ", r.b)) }
		var rest []byte
		for _, part := range parts {
			rest = append(rest, part...)
			n, err := s.read(rest)
			if err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if len(rest) > 0 {
			t.Fatalf("%d bytes are left", len(rest))
		}
		return all
	}
	whole := told(w.batch)
	if len(whole) != 10 {
		t.Fatalf("%q", whole)
	}
	for cut := range w.batch {
		if parts := told(w.batch[:cut], w.batch[cut:]); !reflect.DeepEqual(parts, whole) {
			t.Fatalf("cut at %d: %q, want %q", cut, parts, whole)
		}
	}
}

// unasked are rows that know how far they have come, and are not asked for anything else.
type unasked struct {
	Rows
	of   Index
	size int64
}

func (u unasked) Reached(context.Context, uint64) (Index, int64, error) { return u.of, u.size, nil }

// Who counts by labels and steps, or looks for those of few tasks, reads neither rows nor messages, and few
// blocks of the index.
func TestLabelsAndStepsComeFromTheIndex(t *testing.T) {
	bounds := UsualBounds
	bounds.Block = 1000
	index, err := Open(filepath.Join(t.TempDir(), "past"), bounds, func() { t.Error("the file is damaged") })
	if err != nil {
		t.Fatal(err)
	}
	defer index.Close()
	if err := index.Begin(End{}); err != nil {
		t.Fatal(err)
	}
	const n = 2000
	for i := 1; i <= n; i++ {
		is := task.Task{ID: task.ID(fmt.Sprintf("01JNAT%020d", i)), State: task.Finished}
		is.Labels = map[string]string{"env": "prod"}
		if i == 700 {
			is.Labels = map[string]string{"env": "test", "team": "a"}
		}
		if i%1000 == 0 {
			is.Step = "load"
		}
		index.Add(&events.Record{Seq: uint64(i)}, &Move{Task: &is, Of: new(Indexed)})
	}
	end, err := index.Write()
	if err != nil {
		t.Fatal(err)
	}
	past := index.At(view.Point{Seq: n}, unasked{of: index, size: end.Size}, nil)
	scene, err := past.scene(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	labels := func(of ...string) view.Filter {
		f := view.Filter{Labels: map[string]string{}}
		for i := 0; i < len(of); i += 2 {
			f.Labels[of[i]] = of[i+1]
		}
		return f
	}
	for _, c := range []struct {
		f           view.Filter
		want, reads int // tasks; blocks in which they may be
	}{
		{labels("env", "prod"), n - 1, len(scene.blocks)},
		{labels("env", "test"), 1, 1},
		{labels("team", "a", "env", "test"), 1, 1},
		{labels("team", "a", "env", "prod"), 0, 0},
		{labels("env", "none"), 0, 0},
		{labels("", "load"), 0, 0},
		{view.Filter{Step: "load"}, 2, 2},
		{view.Filter{Step: "load", Labels: map[string]string{"env": "prod"}}, 2, 2},
		{view.Filter{Step: "a"}, 0, 0},
	} {
		counts, err := past.Count(t.Context(), view.Query{Kind: view.Tasks, Filter: c.f})
		if err != nil || counts.All() != c.want {
			t.Errorf("%+v: %v, %d tasks, want %d", c.f, err, counts.All(), c.want)
		}
		w, err := past.walk(scene, &c.f, "")
		if err != nil {
			t.Fatal(err)
		}
		reads := 0
		for _, b := range w.blocks {
			if w.chosen.any(scene, b) {
				reads++
			}
		}
		if reads > c.reads || len(scene.blocks) < 10 {
			t.Errorf("%+v may be in %d of %d blocks, want %d", c.f, reads, len(scene.blocks), c.reads)
		}
	}
}
