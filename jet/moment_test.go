package jet

import (
	"math"
	"slices"
	"testing"
	"time"

	"millrace/events"
	"millrace/jet/streams"
	"millrace/jet/wire"
)

// A time and a sequence find the last message up to there, whichever messages were removed since.
func TestLastAt(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	if r, found, err := s.LastAt(within(t), time.Now()); found || err != nil {
		t.Errorf("an empty log ends with %+v, %v", r, err)
	}
	for range 9 {
		submit(t, s, "default")
	}
	log := must(s.JS.Stream(within(t), wire.LogStream))(t)
	last := must(s.Last(within(t)))(t)
	for _, gone := range []uint64{1, 2, 5, 6} {
		if err := log.DeleteMsg(within(t), gone); err != nil {
			t.Fatal(err)
		}
	}
	var all []events.Record
	for seq := range last {
		if r, found, err := s.Message(within(t), seq+1); err != nil {
			t.Fatal(err)
		} else if found {
			all = append(all, r)
		}
	}
	for seq := range last + 3 {
		i := slices.IndexFunc(all, func(r events.Record) bool { return r.Seq > seq })
		if i < 0 {
			i = len(all)
		}
		r, found, err := s.LastUpTo(within(t), seq)
		if err != nil || found != (i > 0) || found && r.Seq != all[i-1].Seq {
			t.Errorf("up to %d: %d, %v, %v", seq, r.Seq, found, err)
		}
	}
	for i := range all {
		for _, at := range []time.Time{all[i].Stored.Add(-1), all[i].Stored, all[i].Stored.Add(1)} {
			want := slices.IndexFunc(all, func(r events.Record) bool { return r.Stored.After(at) })
			if want < 0 {
				want = len(all)
			}
			r, found, err := s.LastAt(within(t), at)
			if err != nil || found != (want > 0) || found && r.Seq != all[want-1].Seq {
				t.Errorf("at %v of %d: %d, %v, %v", at.Sub(all[i].Stored), all[i].Seq, r.Seq, found, err)
			}
		}
	}
}

// Messages come in the order of the log, each once, without those that were removed, whether they lie
// near each other or far apart.
func TestMessagesBySequence(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	for range 300 { // more than one request brings
		submit(t, s, "default")
	}
	log := must(s.JS.Stream(within(t), wire.LogStream))(t)
	last := must(s.Last(within(t)))(t)
	gone := []uint64{1, 5, 6, 7, 30, last}
	for _, seq := range gone {
		if err := log.DeleteMsg(within(t), seq); err != nil {
			t.Fatal(err)
		}
	}
	every := func(n uint64) (seqs []uint64) {
		for seq := last + 3; seq > 0; seq -= min(n, seq) {
			seqs = append(seqs, seq)
		}
		return seqs
	}
	for _, asked := range [][]uint64{nil, {9}, {1}, {9, 8, 9}, {1, 2}, {6, 7}, {last - 1, last, last + 9}, {3, 50, 51, 4}, every(1), every(2), every(17), {2, math.MaxUint32}} {
		want := slices.Compact(slices.Sorted(slices.Values(asked)))
		want = slices.DeleteFunc(want, func(seq uint64) bool { return seq > last || slices.Contains(gone, seq) })
		found, err := s.Messages(within(t), asked)
		var have []uint64
		for i := range found {
			have = append(have, found[i].Seq)
		}
		if err != nil || !slices.Equal(have, want) {
			t.Errorf("of %d it has %d, %v; want %d", asked, have, err, want)
		}
	}
}
