package logtest

import (
	"context"
	"errors"
	"slices"

	"millrace/events"
	"millrace/task"
	"millrace/task/node"
)

var followCases = []testCase{
	{name: "follow from the start", body: followAll},
	{name: "follow from the middle", body: followMiddle},
	{name: "follow what is to come", body: followNew},
	{name: "a feed honours its context", body: followEnds},
}

func (s *suite) follow(from uint64) events.Feed {
	s.Helper()
	feed, err := s.all.Follow(s.context(), from)
	if err != nil {
		s.Fatalf("Follow(%d): %v", from, err)
	}
	s.Cleanup(feed.Close)
	return feed
}

// read takes n records from a feed. It skips timers and other records between them that belong to
// no history.
func (s *suite) read(feed events.Feed, n int) []events.Record {
	s.Helper()
	ctx := s.context()
	var all []events.Record
	for len(all) < n {
		batch, err := feed.Next(ctx)
		if err != nil {
			s.Fatalf("Next after %d of %d records: %v", len(all), n, err)
		}
		if len(batch) == 0 {
			s.Fatal("Next returned no record and no error")
		}
		for _, r := range batch {
			if r.Kind != events.KindOther {
				all = append(all, r)
			}
		}
	}
	if len(all) > n || !slices.IsSorted(sequences(all)) {
		s.Fatalf("a feed gave the records %v, want %d in order", sequences(all), n)
	}
	return all
}

// fill writes a record of each kind and returns their sequences.
func (s *suite) fill() []uint64 {
	id := s.task()
	return []uint64{
		s.place(s.fact(id, task.Submitted{Work: work("default")})),
		s.append(s.fact(id, note("a")), 0),
		s.append(s.nodeFact(node.ID(s.id()), node.Registered{Session: "s1"}), 0),
		s.place(s.fact(s.task(), task.Submitted{Work: work("default"), Due: now()})),
		s.place(s.fact(id, task.Queued{Work: work("default"), Attempt: 1})),
	}
}

func followAll(s *suite) {
	want := append(s.fill(), s.fill()...)
	for range 2 { // a feed leaves no trace: the next one returns the same
		got := s.read(s.follow(1), len(want))
		if !slices.Equal(sequences(got), want) {
			s.Fatalf("got the records %v, want %v", sequences(got), want)
		}
		kinds := []events.Kind{events.KindOffer, events.KindChain, events.KindNode, events.KindChain, events.KindOffer}
		for i := range got {
			if got[i].Kind != kinds[i%len(kinds)] {
				s.Errorf("record %d has kind %d, want %d", got[i].Seq, got[i].Kind, kinds[i%len(kinds)])
			}
		}
	}
}

func followMiddle(s *suite) {
	want := append(s.fill(), s.fill()...)
	for _, i := range []int{0, 1, 4, len(want) - 1} {
		if got := sequences(s.read(s.follow(want[i]), len(want)-i)); !slices.Equal(got, want[i:]) {
			s.Errorf("from %d: got the records %v, want %v", want[i], got, want[i:])
		}
	}
}

func followNew(s *suite) {
	old := s.fill()
	both := s.follow(1)
	fresh := s.follow(old[len(old)-1] + 1)
	s.read(both, len(old))
	for range 3 {
		want := s.fill()
		for _, feed := range []events.Feed{both, fresh} {
			if got := sequences(s.read(feed, len(want))); !slices.Equal(got, want) {
				s.Errorf("got the new records %v, want %v", got, want)
			}
		}
	}
}

func followEnds(s *suite) {
	feed := s.follow(1)
	ctx, cancel := context.WithCancel(s.context())
	ended := make(chan error)
	go func() {
		for {
			if _, err := feed.Next(ctx); err != nil {
				ended <- err
				return
			}
		}
	}()
	s.fill()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		s.Errorf("Next: %v, want the error of its context", err)
	}
}
