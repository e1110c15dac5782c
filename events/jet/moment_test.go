package jet

import (
	"slices"
	"testing"
	"time"

	"millrace/events"
	"millrace/events/jet/names"
	"millrace/events/jet/streams"
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
	log := must(s.JS.Stream(within(t), names.LogStream))(t)
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
