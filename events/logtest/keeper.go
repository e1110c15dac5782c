package logtest

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"millrace/events"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/limit"
	"millrace/task/value"
)

var keeperCases = []testCase{
	{name: "the admissions of a scope have a chain", body: admissions},
	{name: "facts on several chains are appended all or none", body: allOrNone},
	{name: "the end of a task is appended together with an admission", body: endWithAdmission},
	{name: "of racing writers to several chains one wins on each", body: raceOfSeveral},
	{name: "a key has a chain of its own", body: keyClaims},
	{name: "garbage at the end of a chain", body: garbageLast, garbage: true},
	{name: "a birth is taken under the last claim only", body: claimedBirths},
	{name: "a claim and a birth exclude each other", body: claimRace},
	{name: "a fact on a chain is taken under the last claim only", body: claimedChains},
}

func (s *suite) granted(of limit.Scope, id task.ID) *events.Fact {
	f := s.fact("", nil)
	f.Scope, f.Event, f.Type = of, task.Granted{Grants: []task.Grant{{Task: id}}}, events.LimitGranted
	return f
}

// admitted is the end of a scope's chain.
func (s *suite) admitted(of limit.Scope) uint64 {
	s.Helper()
	_, end, err := s.log.Latest(s.context(), events.Fact{Scope: of})
	if err != nil {
		s.Fatalf("Latest of %s: %v", of, err)
	}
	return end
}

func (s *suite) claim(key string, id task.ID) *events.Fact {
	f := s.fact("", nil)
	f.Key, f.Event, f.Type = key, birth.KeyClaimed{Holder: id}, events.UniqueClaimed
	return f
}

func admissions(s *suite) {
	if last := s.admitted("job.a"); last != 0 {
		s.Fatalf("Latest of an empty log: %d", last)
	}
	a := s.append(s.granted("job.a", s.task()), 0)
	if _, err := s.log.Append(s.context(), s.granted("job.a", s.task()), 0); !errors.Is(err, events.ErrConflict) {
		s.Fatalf("a second first admission: %v, want ErrConflict", err)
	}
	f := s.granted("job.a", s.task())
	b := s.append(f, a)
	other := s.append(s.granted("job.b", s.task()), 0)
	if last := s.admitted("job.a"); last != b {
		s.Fatalf("Latest: %d, want %d", last, b)
	}
	if last := s.admitted("job.b"); last != other {
		s.Fatalf("Latest of another scope: %d, want %d", last, other)
	}
	s.same(&s.from(b, 1)[0], events.KindLimit, b, f)
}

// from reads a number of records from a sequence on.
func (s *suite) from(seq uint64, n int) (records []events.Record) {
	s.Helper()
	feed, err := s.all.Follow(s.context(), seq)
	if err != nil {
		s.Fatal(err)
	}
	defer feed.Close()
	for len(records) < n {
		next, err := feed.Next(s.context())
		if err != nil {
			s.Fatal(err)
		}
		for _, r := range next {
			r.Raw = bytes.Clone(r.Raw)
			if r.Fact, err = events.Decode(r.Raw); err != nil {
				s.Fatal(err)
			}
			records = append(records, r)
		}
	}
	return records
}

// The end of a task that a limit refuses lies on its own chain. It is recorded only if no task has
// been admitted meanwhile.
func endWithAdmission(s *suite) {
	id := s.task()
	end, granted := s.fact(id, task.GivenUp{Reason: value.Limit}), s.granted("job.a", s.task())
	before := s.append(s.granted("job.a", s.task()), 0)
	facts := []*events.Fact{end, granted}
	for _, last := range [][]uint64{{0, 0}, {before, before}} {
		if _, err := s.log.AppendAll(s.context(), facts, last); !errors.Is(err, events.ErrConflict) {
			s.Fatalf("AppendAll at %v: %v, want ErrConflict", last, err)
		}
	}
	first, err := s.log.AppendAll(s.context(), facts, []uint64{0, before})
	if err != nil {
		s.Fatal(err)
	}
	records := s.from(first, 2)
	s.same(&records[0], events.KindChain, first, end)
	s.same(&records[1], events.KindLimit, first+1, granted)
}

func allOrNone(s *suite) {
	scopes := []limit.Scope{"job.a", "key.b", "queue.c"}
	write := func(last ...uint64) (uint64, []*events.Fact, error) {
		facts := make([]*events.Fact, len(last))
		for i := range facts {
			facts[i] = s.granted(scopes[i], s.task())
		}
		first, err := s.log.AppendAll(s.context(), facts, last)
		return first, facts, err
	}
	before := s.append(s.granted("key.b", s.task()), 0)
	for _, last := range [][]uint64{{0, 0, 0}, {0, before, 7}, {before, before, 0}} {
		if _, _, err := write(last...); !errors.Is(err, events.ErrConflict) {
			s.Fatalf("AppendAll at %v: %v, want ErrConflict", last, err)
		}
	}
	for i, want := range []uint64{0, before, 0} {
		if last := s.admitted(scopes[i]); last != want {
			s.Fatalf("what was refused has left %s at %d, want %d", scopes[i], last, want)
		}
	}
	first, facts, err := write(0, before, 0)
	if err != nil || first <= before {
		s.Fatalf("AppendAll: %d, %v", first, err)
	}
	records := s.from(first, 3)
	for i := range facts {
		s.same(&records[i], events.KindLimit, first+uint64(i), facts[i])
	}
	again, _, err := write(first, first+1, first+2)
	if err != nil {
		s.Fatalf("AppendAll at the heads: %v", err)
	}
	if next, _, err := write(again); err != nil || s.admitted("job.a") != next {
		s.Fatalf("AppendAll of one fact: %d, %v", next, err)
	}
	if last := s.admitted("queue.c"); last != again+2 {
		s.Fatalf("the third chain is at %d, want %d", last, again+2)
	}
}

// raceOfSeveral: two concurrent writers to several chains exclude each other if they share a chain.
func raceOfSeveral(s *suite) {
	for round := range 30 {
		name := func(i int) limit.Scope { return limit.Scope(fmt.Sprintf("job.race-%d-%d", round, i)) }
		writers := [][]int{{0, 1}, {1, 2}, {1}, {3, 4}}
		wrote := make([]atomic.Bool, len(writers))
		var wg sync.WaitGroup
		for i, chains := range writers {
			facts := make([]*events.Fact, len(chains))
			for j, at := range chains {
				facts[j] = s.granted(name(at), s.task())
			}
			wg.Go(func() {
				var err error
				if len(facts) == 1 {
					_, err = s.log.Append(s.context(), facts[0], 0)
				} else {
					_, err = s.log.AppendAll(s.context(), facts, make([]uint64, len(facts)))
				}
				if err != nil && !errors.Is(err, events.ErrConflict) {
					s.Errorf("writer %d: %v", i, err)
				}
				wrote[i].Store(err == nil)
			})
		}
		wg.Wait()
		winners := 0
		for i := range writers[:3] {
			if wrote[i].Load() {
				winners++
			}
		}
		if winners != 1 || !wrote[3].Load() {
			s.Fatalf("of three writers to a chain %d have won; the one to others: %v", winners, wrote[3].Load())
		}
		for at, writer := range []int{0: 0, 2: 1, 3: 3, 4: 3} {
			if at != 1 && (s.admitted(name(at)) > 0) != wrote[writer].Load() {
				s.Fatalf("chain %d is at %d, and its writer has won: %v", at, s.admitted(name(at)), wrote[writer].Load())
			}
		}
	}
}

func keyClaims(s *suite) {
	if _, end, err := s.log.Latest(s.context(), events.Fact{Key: "shop/a b.*>"}); err != nil || end != 0 {
		s.Fatalf("Latest of a new key: %d, %v", end, err)
	}
	f := s.claim("shop/a b.*>", s.task())
	a := s.append(f, 0)
	s.append(s.claim("shop/other", s.task()), 0)
	last, end, err := s.log.Latest(s.context(), events.Fact{Key: "shop/a b.*>"})
	if err != nil || end != a {
		s.Fatalf("Latest: %d, %v, want %d", end, err, a)
	}
	s.same(&last, events.KindKey, a, f)
	if _, err := s.log.Append(s.context(), s.claim("shop/a b.*>", s.task()), 0); !errors.Is(err, events.ErrConflict) {
		s.Fatalf("a second first claim: %v, want ErrConflict", err)
	}
}

// A message that is no fact changes nothing on a chain but where the next fact must follow.
func garbageLast(s *suite) {
	key := events.Fact{Key: "k"}
	rubbish := func() {
		s.o.Garbage(s.T, s.log, key, []byte(`{"type":"key.claimed","key":`))
	}
	rubbish()
	none, end, err := s.log.Latest(s.context(), key)
	if err != nil || none.Seq != 0 || end == 0 {
		s.Fatalf("Latest of a chain of garbage alone: %+v, %d, %v", none, end, err)
	}
	first := s.claim("k", s.task())
	s.append(first, end)
	f := s.claim("k", s.task())
	a := s.append(f, end+1)
	s.append(s.claim("other", s.task()), 0)
	for n := range uint64(2) {
		rubbish()
		last, end, err := s.log.Latest(s.context(), key)
		if err != nil || end != a+2+n {
			s.Fatalf("Latest behind a fact and garbage: %d, %v, want %d", end, err, a+2+n)
		}
		s.same(&last, events.KindKey, a, f)
		if _, err := s.log.Append(s.context(), s.claim("k", s.task()), a); !errors.Is(err, events.ErrConflict) {
			s.Fatalf("a claim before the garbage: %v, want ErrConflict", err)
		}
	}
	s.append(s.claim("k", s.task()), a+3)
}

func claimedBirths(s *suite) {
	first, second := s.task(), s.task()
	a := s.append(s.claim("k", first), 0)
	b := s.append(s.claim("k", second), a)
	for _, at := range []uint64{0, a, b + 7} {
		if _, err := s.log.PlaceClaimed(s.context(), s.fact(first, task.Submitted{Work: work("default")}), "k", at, false); !errors.Is(err, events.ErrConflict) {
			s.Fatalf("a birth under claim %d: %v, want ErrConflict", at, err)
		}
	}
	if n := len(s.history(first)); n != 0 {
		s.Fatalf("the refused task has %d records", n)
	}
	f := s.fact(second, task.Submitted{Work: work("default")})
	seq, err := s.log.PlaceClaimed(s.context(), f, "k", b, false)
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
		if _, err := s.log.PlaceClaimed(s.context(), s.fact(id, task.Reopened{}), "chain", at, true); !errors.Is(err, events.ErrConflict) {
			s.Fatalf("under claim %d: %v, want ErrConflict", at, err)
		}
	}
	f := s.fact(id, task.Reopened{Reason: "again"})
	seq, err := s.log.PlaceClaimed(s.context(), f, "chain", b, true)
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

// claimRace: a claimant of a key either finds a birth that was on its way under the claim before,
// or keeps it out.
func claimRace(s *suite) {
	for round := range 30 {
		key := fmt.Sprintf("race-%d", round)
		first, second := s.task(), s.task()
		a := s.append(s.claim(key, first), 0)
		birth, later := s.fact(first, task.Submitted{Work: work("default")}), s.claim(key, second)
		var wg sync.WaitGroup
		var born, claimed atomic.Uint64
		wg.Go(func() {
			if seq, err := s.log.PlaceClaimed(s.context(), birth, key, a, false); err == nil {
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
