package logtest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"millrace/events"
	"millrace/task"
)

var keeperCases = []testCase{
	{name: "admissions have one chain", body: admissions},
	{name: "a key has a chain of its own", body: keyClaims},
	{name: "a birth is taken under the last claim only", body: claimedBirths},
	{name: "a claim and a birth exclude each other", body: claimRace},
	{name: "a fact on a chain is taken under the last claim only", body: claimedChains},
}

func (s *suite) granted(id task.ID) *events.Fact {
	f := s.fact("", nil)
	f.Event, f.Type = task.Granted{Grants: []task.Grant{{Task: id}}}, events.LimitGranted
	return f
}

func (s *suite) claim(key string, id task.ID) *events.Fact {
	f := s.fact("", nil)
	f.Key, f.Event, f.Type = key, task.KeyClaimed{Holder: id}, events.UniqueClaimed
	return f
}

func admissions(s *suite) {
	if last, err := s.log.Admitted(s.context()); err != nil || last != 0 {
		s.Fatalf("Admitted of an empty log: %d, %v", last, err)
	}
	a := s.append(s.granted(s.task()), 0)
	if _, err := s.log.Append(s.context(), s.granted(s.task()), 0); !errors.Is(err, events.ErrConflict) {
		s.Fatalf("a second first admission: %v, want ErrConflict", err)
	}
	f := s.granted(s.task())
	b := s.append(f, a)
	if last, err := s.log.Admitted(s.context()); err != nil || last != b {
		s.Fatalf("Admitted: %d, %v, want %d", last, err, b)
	}
	feed, err := s.log.Follow(s.context(), b)
	if err != nil {
		s.Fatal(err)
	}
	defer feed.Close()
	records, err := feed.Next(s.context())
	if err != nil {
		s.Fatal(err)
	}
	s.same(&records[0], events.KindLimit, b, f)
}

func keyClaims(s *suite) {
	if _, found, err := s.log.Claimed(s.context(), "shop/a b.*>"); err != nil || found {
		s.Fatalf("Claimed of a new key: %v, %v", found, err)
	}
	f := s.claim("shop/a b.*>", s.task())
	a := s.append(f, 0)
	s.append(s.claim("shop/other", s.task()), 0)
	last, found, err := s.log.Claimed(s.context(), "shop/a b.*>")
	if err != nil || !found {
		s.Fatalf("Claimed: %v, %v", found, err)
	}
	s.same(&last, events.KindKey, a, f)
	if _, err := s.log.Append(s.context(), s.claim("shop/a b.*>", s.task()), 0); !errors.Is(err, events.ErrConflict) {
		s.Fatalf("a second first claim: %v, want ErrConflict", err)
	}
}

func claimedBirths(s *suite) {
	first, second := s.task(), s.task()
	a := s.append(s.claim("k", first), 0)
	b := s.append(s.claim("k", second), a)
	for _, at := range []uint64{0, a, b + 7} {
		if _, err := s.log.PlaceClaimed(s.context(), s.fact(first, task.Submitted{Work: work("default")}), "k", at); !errors.Is(err, events.ErrConflict) {
			s.Fatalf("a birth under claim %d: %v, want ErrConflict", at, err)
		}
	}
	if n := len(s.history(first)); n != 0 {
		s.Fatalf("the refused task has %d records", n)
	}
	f := s.fact(second, task.Submitted{Work: work("default")})
	seq, err := s.log.PlaceClaimed(s.context(), f, "k", b)
	if err != nil {
		s.Fatal(err)
	}
	records := s.history(second)
	if len(records) != 1 {
		s.Fatalf("the task has %d records, want 1", len(records))
	}
	s.same(&records[0], events.KindOffer, seq, f)
}

func claimedChains(s *suite) {
	id := s.task()
	s.place(s.fact(id, task.Submitted{Work: work("default")}))
	cancelled := s.append(s.fact(id, task.CancelConfirmed{}), 0)
	a := s.append(s.claim("chain", id), 0)
	b := s.append(s.claim("chain", id), a)
	for _, at := range []uint64{0, a, b + 7} {
		if _, err := s.log.AppendClaimed(s.context(), s.fact(id, task.Reopened{}), "chain", at); !errors.Is(err, events.ErrConflict) {
			s.Fatalf("under claim %d: %v, want ErrConflict", at, err)
		}
	}
	f := s.fact(id, task.Reopened{Reason: "again"})
	seq, err := s.log.AppendClaimed(s.context(), f, "chain", b)
	if err != nil {
		s.Fatal(err)
	}
	records := s.history(id)
	s.same(&records[len(records)-1], events.KindChain, seq, f)
	if _, err := s.log.Append(s.context(), s.fact(id, task.CancelConfirmed{}), cancelled); !errors.Is(err, events.ErrConflict) {
		s.Fatalf("at the head before: %v, want ErrConflict", err)
	}
	s.append(s.fact(id, task.CancelConfirmed{}), seq)
}

// claimRace: whoever claims a key while somebody else's birth under the claim before is on its
// way finds it afterwards, or keeps it out.
func claimRace(s *suite) {
	for round := range 30 {
		key := fmt.Sprintf("race-%d", round)
		first, second := s.task(), s.task()
		a := s.append(s.claim(key, first), 0)
		birth, later := s.fact(first, task.Submitted{Work: work("default")}), s.claim(key, second)
		var wg sync.WaitGroup
		var born, claimed atomic.Uint64
		wg.Go(func() {
			if seq, err := s.log.PlaceClaimed(s.context(), birth, key, a); err == nil {
				born.Store(seq)
			}
		})
		wg.Go(func() {
			if seq, err := s.log.Append(s.context(), later, a); err == nil {
				claimed.Store(seq)
			}
		})
		wg.Wait()
		if born.Load() > claimed.Load() && claimed.Load() != 0 {
			s.Fatalf("the birth at %d was taken after the claim at %d", born.Load(), claimed.Load())
		}
		if found := len(s.history(first)); (found > 0) != (born.Load() > 0) {
			s.Fatalf("the birth is at %d, and the task has %d records", born.Load(), found)
		}
	}
}
