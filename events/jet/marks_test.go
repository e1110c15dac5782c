package jet

import (
	"context"
	"testing"

	"millrace/events"
	"millrace/events/jet/names"
	"millrace/events/jet/streams"
	"millrace/internal/testkit"
)

// The log sources a mark when so many messages have come since the last one, and then none before
// as many have come again.
func TestMarks(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	m := NewMarks()
	if err := s.putMark(within(t), m); err != nil {
		t.Fatal(err)
	}
	feed := must(s.Follow(within(t), 1))(t)
	defer feed.Close()
	marked := must(feed.Next(within(t)))(t)
	if r := marked[0]; len(marked) != 1 || r.Kind != events.KindProbe || r.Place != names.LogProbe || r.Err != nil || r.IsFact() {
		t.Errorf("marks in the log: %+v", marked)
	}
	if got := must(s.log.GetMsg(within(t), marked[0].Seq))(t); len(got.Header[names.FiredHeader]) == 0 {
		t.Errorf("the log has not sourced it: %v", got.Header)
	}
	asks := func(seq uint64) bool {
		m.Observe([]events.Step{{Record: &events.Record{Seq: seq}}})
		return len(m.due) > 0
	}
	if m.Observe(nil); asks(markEvery - 1) {
		t.Error("there is a mark, and the log asks for one")
	}
	if !asks(markEvery) {
		t.Error("so many messages behind a mark the log asks for none")
	}

	ctx, stop := context.WithCancel(t.Context())
	kept := make(chan struct{})
	looks := 0 // how often first was called
	go func() {
		defer close(kept)
		s.KeepMarks(ctx, m, func() bool { looks++; return looks > 1 }, func(err error) { t.Error(err) })
	}()
	defer func() { stop(); <-kept }()
	testkit.Eventually(t, "the log is marked when the turn has come", func() bool { return !asks(markEvery) && m.next.Load() > markEvery })
	if more := must(feed.Next(within(t)))(t); len(more) != 1 || more[0].Kind != events.KindProbe {
		t.Errorf("then the log has %+v", more)
	}
	if next := m.next.Load(); next != 2*markEvery {
		t.Errorf("the next mark is due at %d", next)
	}
}

// Marks are tidied away as probes are, but for the last one.
func TestMarksAreTidied(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	m := NewMarks()
	for range ProbesKept + 1 {
		if err := s.putMark(within(t), m); err != nil {
			t.Fatal(err)
		}
	}
	count := func() int {
		info := must(s.log.Info(within(t)))(t)
		return int(info.State.Msgs)
	}
	testkit.Eventually(t, "the log has sourced the marks", func() bool { return count() == ProbesKept+1 })
	if err := s.TidyProbes(within(t)); err != nil {
		t.Fatal(err)
	}
	if n := count(); n != 1 {
		t.Errorf("%d messages are left, want the last one", n)
	}
}
