package replay

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"millrace/events"
	"millrace/task/node"
)

// A kept span answers like the one that was read, whatever part of it is asked for.
func TestKept(t *testing.T) {
	s, _, _ := tale(t)
	damaged := s.span(1)
	if damaged.Keep() != nil {
		t.Error("a span with an unreadable message is kept")
	}
	s.intact()
	for range 3 * foldEvery { // more facts of a node than are folded at once
		s.node("a", node.Changed{Order: node.OrderDrain})
		s.node("a", node.Changed{Order: node.OrderServe})
	}
	text := s.span(1).Keep()
	if text == nil {
		t.Fatal("the span is not kept")
	}
	for _, part := range [][2]uint64{{1, 1 << 40}, {5, 1 << 40}, {1, 9}, {4, 11}} {
		restored, read := NewSpan(1), NewSpan(1)
		if err := restored.Restore(text, func(r *events.Record) bool { return r.Seq > part[1] }, func(r *events.Record) bool { return r.Seq >= part[0] }); err != nil {
			t.Fatal(err)
		}
		for i := range s.records {
			if r := &s.records[i]; r.Seq <= part[1] {
				if err := read.Add(r, r.Seq >= part[0]); err != nil {
					t.Fatal(err)
				}
			}
		}
		if have, want := replies(t, restored), replies(t, read); have != want {
			t.Errorf("#%d to #%d: the kept span says\n%s\nwant\n%s", part[0], part[1], have, want)
		}
	}
	damaged = s.span(1)
	if damaged.Missing("it is cut"); damaged.Keep() != nil {
		t.Error("a span of which something is missing is kept")
	}
}

// intact makes unreadable messages ones that need not be read.
func (s *story) intact() {
	for i := range s.records {
		if r := &s.records[i]; r.Err != nil {
			r.Err, r.Kind = nil, events.KindProbe
		}
	}
}

func replies(t *testing.T, span *Span) string {
	t.Helper()
	x, err := New(span, judged)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, line := range []string{"b late", "b state error", "b type node", "b node a", "b task.attempt > 1", "b broken", "g end", "c", "C", "k", "K", "g start"} {
		answer, err := x.Do(t.Context(), line)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(answer)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
		all.WriteByte('\n')
	}
	for range span.Len() {
		answer, err := x.Do(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		text, _ := json.Marshal(answer)
		all.Write(text)
	}
	return all.String()
}

// What Keep did not write is refused, or is a span: nothing of it stops the program.
func TestKeptIsDamaged(t *testing.T) {
	s, _, _ := tale(t)
	s.intact()
	text := s.span(1).Keep()
	always, never := func(*events.Record) bool { return true }, func(*events.Record) bool { return false }
	for cut := range text {
		if NewSpan(1).Restore(text[:cut], never, always) == nil {
			t.Errorf("the first %d of %d bytes are a kept span", cut, len(text))
		}
	}
	if NewSpan(7).Restore(text, never, always) == nil {
		t.Error("a span of another beginning is restored")
	}
	random := rand.New(rand.NewPCG(1, 2)) // the same each time
	for range 2000 {
		other := slices.Clone(text)
		for range 1 + random.IntN(3) {
			other[random.IntN(len(other))] ^= byte(1 + random.IntN(255))
		}
		_ = NewSpan(1).Restore(other, never, always)
	}
}
