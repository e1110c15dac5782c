package logtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/limit"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/task/queue"
)

var offerCases = []testCase{
	{name: "an offer is leased", body: leased},
	{name: "an acknowledged offer is over", body: acked},
	{name: "an extended lease is kept", body: extended},
	{name: "a returned offer comes at once", body: returned},
	{name: "queues do not mix", body: queues},
	{name: "next honours its context", body: nextEnds},
	{name: "many workers get each offer once", body: manyWorkers},
	{name: "a node proves that offers reach it", body: proof},
	{name: "a first offer is the only one", body: firstOffers},
	{name: "an offer bears the rate of its queue", body: ratedOffers},
	{name: "an offer bears the window of its queue", body: windowedOffers},
	{name: "a node gets what is meant for it at any priority", body: ownRoute},
}

// submit offers a task on a queue.
func (s *suite) submit(queue string) task.ID {
	s.Helper()
	id := s.task()
	s.place(s.fact(id, task.Submitted{Work: work(queue)}))
	return id
}

func (s *suite) delivered(offer *events.Offer, id task.ID, deliveries int) {
	s.Helper()
	if offer.Fact.Task != id || offer.Deliveries != deliveries {
		s.Fatalf("got delivery %d of task %s, want %d of %s", offer.Deliveries, offer.Fact.Task, deliveries, id)
	}
}

// first checks for the first delivery of an offer to a waiting caller. Asked is the number of
// earlier callers that no longer wait: each of them may have returned it once.
func (s *suite) first(offer *events.Offer, id task.ID, asked int) {
	s.Helper()
	if offer.Fact.Task != id || offer.Deliveries < 1 || offer.Deliveries > 1+asked {
		s.Fatalf("got delivery %d of task %s, want one of the first %d of %s", offer.Deliveries, offer.Fact.Task, 1+asked, id)
	}
}

func leased(s *suite) {
	s.until(func(mine, others events.Offers) bool {
		id := s.task()
		f := s.fact(id, task.Submitted{Work: work("default")})
		since := time.Now()
		seq := s.place(f)
		offer := s.next(mine)
		s.same(&offer.Record, events.KindOffer, seq, f)
		s.delivered(offer, id, 1)
		if !s.holds(others, s.o.AckWait/2, since) {
			return false
		}

		again := s.next(others)
		s.delivered(again, id, 2)
		if again.Seq != seq {
			s.Errorf("the offer came again as %d, want %d", again.Seq, seq)
		}
		if after := time.Since(since); after < s.o.AckWait*3/4 {
			s.Errorf("the lease ran out after %v, want about %v", after, s.o.AckWait)
		}
		s.ack(again)
		return true
	})
}

func acked(s *suite) {
	s.submit("default")
	offers := s.offers("default")
	s.ack(s.next(offers))
	s.nothing(offers, 2*s.o.AckWait)
}

func extended(s *suite) {
	s.until(func(mine, others events.Offers) bool {
		born := time.Now()
		words := []time.Time{born, born}
		id := s.submit("default")
		offer := s.next(mine)
		for i := range 12 { // four leases
			if !s.holds(others, s.o.AckWait/3, words[i]) {
				return false
			}
			words = append(words, time.Now())
			if i >= 6 {
				if err := offer.Prolong(); err != nil {
					s.Fatalf("Prolong: %v", err)
				}
			} else if err := offer.Extend(s.context()); err != nil {
				s.Fatalf("Extend: %v", err)
			}
		}
		s.delivered(s.next(others), id, 2) // silence ends it
		return true
	})
}

func returned(s *suite) {
	id := s.submit("default")
	others := s.offers("default")
	mine, err := s.offerer.Offers(s.context(), []string{"default"})
	if err != nil {
		s.Fatal(err)
	}
	offer := s.next(mine)
	mine.Close() // as at shutdown; the holder keeps the offer that was handed out
	since := time.Now()
	if err := offer.Return(); err != nil {
		s.Fatalf("Return: %v", err)
	}
	again := s.next(others)
	s.delivered(again, id, 2)
	if after := time.Since(since); after > s.o.AckWait/2 {
		s.Errorf("a returned offer came again after %v, want at once", after)
	}
	s.ack(again)
}

func queues(s *suite) {
	names := []string{"a", "ab", "a-b", "A"}
	ids := map[string]task.ID{}
	for _, queue := range names {
		ids[queue] = s.submit(queue)
	}
	for _, queue := range names {
		offers := s.offers(queue)
		offer := s.next(offers)
		s.delivered(offer, ids[queue], 1)
		s.ack(offer)
		s.nothing(offers, s.o.AckWait/5)
		offers.Close()
	}

	both := s.offers("a", "ab")
	for _, queue := range []string{"ab", "a", "ab"} {
		s.submit("a-b")
		id := s.submit(queue)
		offer := s.next(both)
		s.first(offer, id, 1) // it asked for one of the other queue, too
		s.ack(offer)
	}
	s.nothing(both, s.o.AckWait/5)
}

func nextEnds(s *suite) {
	offers := s.offers("default")
	ctx, cancel := context.WithCancel(s.context())
	ended := make(chan error)
	go func() {
		_, err := offers.Next(ctx)
		ended <- err
	}()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		s.Errorf("Next: %v, want the error of its context", err)
	}
	if _, err := offers.Next(ctx); !errors.Is(err, context.Canceled) {
		s.Errorf("Next with a context that has ended: %v, want its error", err)
	}
	id := s.submit("default") // a closed caller takes no offer along
	offer := s.next(offers)
	s.delivered(offer, id, offer.Deliveries)
	s.ack(offer)
}

// A proof comes through where nothing else does, needs no free slot, leaves no trace among tasks
// and nodes, and is not an offer.
func proof(s *suite) {
	without := s.offers("default")
	if err := without.Prove(s.context()); err == nil {
		s.Error("there is a proof without a route of its own")
	}
	own := s.offers("default", node.ID("n1").Queue())
	last, err := s.all.Last(s.context())
	if err != nil {
		s.Fatal(err)
	}
	for range 3 {
		if err := own.Prove(s.context()); err != nil {
			s.Fatalf("Prove: %v", err)
		}
	}
	if err := own.Trouble(); err != nil {
		s.Errorf("there is trouble after a proof: %v", err)
	}
	s.nothing(own, s.o.AckWait/5)
	id := s.submit("default")
	feed := s.follow(last + 1)
	for found := false; !found; {
		records, err := feed.Next(s.context())
		if err != nil {
			s.Fatal(err)
		}
		for _, r := range records {
			found = found || r.Fact.Task == id
			if r.Fact.Task != id && (r.Kind != events.KindProbe || r.Err != nil || r.Fact.Task != "" || r.Fact.Node != "") {
				s.Errorf("a proof left the record %+v", r)
			}
		}
	}
	waiting := make(chan *events.Offer, 1)
	go func() { // a proof takes no offer away from a waiting caller
		offer, err := own.Next(s.context())
		if err != nil {
			s.Errorf("Next: %v", err)
		}
		waiting <- offer
	}()
	offer := <-waiting
	s.first(offer, id, 1) // it asked for one when none was to come
	s.ack(offer)
	go func() {
		offer, _ := own.Next(s.context())
		waiting <- offer
	}()
	for range 3 {
		if err := own.Prove(s.context()); err != nil {
			s.Fatalf("Prove: %v", err)
		}
	}
	id = s.submit("default")
	if offer = <-waiting; offer == nil || offer.Fact.Task != id {
		s.Fatalf("got %+v, want the offer of task %s", offer, id)
	}
	s.ack(offer)
}

// Every offer on a node's own route reaches the node once, for any priority and fair key, whether
// it was there before or a timer brings it; also after a move to another priority.
func ownRoute(s *suite) { s.repeat(func() bool { return onOwnRoute(s) }) }

// onOwnRoute is false if an offer came again, because its lease had expired before the server read the
// acknowledgement.
func onOwnRoute(s *suite) (told bool) {
	aimed := func(priority int, key string) task.Work {
		w := work("default")
		w.Route, w.FairKey = placement.NodeRoute("n1", priority), key
		return w
	}
	var want []task.ID
	submit := func(w task.Work) task.ID {
		want = append(want, s.task())
		s.place(s.fact(want[len(want)-1], task.Submitted{Work: w}))
		return want[len(want)-1]
	}
	for _, priority := range []int{2, 5, 9} {
		submit(aimed(priority, ""))
	}
	own, elsewhere := s.offers("default", node.ID("n1").Queue()), s.offers("default", node.ID("n2").Queue())
	defer own.Close()
	defer elsewhere.Close()
	submit(aimed(9, "acme"))
	submit(aimed(5, "acme"))
	armed, due := s.task(), now().Add(soon)
	s.arm(s.fact(armed, task.Queued{Work: aimed(7, ""), Attempt: 1, Due: due}))
	want = append(want, armed)
	moved := s.task()
	s.place(s.fact(moved, task.Submitted{Work: aimed(5, "")}))
	s.append(s.fact(moved, task.Reassigned{From: "@n1.5", To: "@n1.10"}), 0)
	s.place(s.fact(moved, task.Queued{Work: aimed(10, ""), Attempt: 1, After: 1}))
	want = append(want, moved, moved) // its first offer fails at the claim
	var got []task.ID
	told = true
	for seen := map[uint64]bool{}; len(got) < len(want); {
		offer := s.next(own)
		told = told && offer.Deliveries == 1
		if seen[offer.Seq] {
			s.ack(offer)
			continue
		}
		seen[offer.Seq] = true
		if offer.Fact.Task == armed {
			s.onTime(offer, due)
		}
		if records := s.history(offer.Fact.Task); len(records) == 0 || !slices.ContainsFunc(records, func(r events.Record) bool { return r.Seq == offer.Seq }) {
			s.Errorf("offer %d is not in the history of its task: %v", offer.Seq, sequences(records))
		}
		got = append(got, offer.Fact.Task)
		s.ack(offer)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		s.Errorf("the node got %v, want %v", got, want)
	}
	if told {
		s.nothing(own, s.o.AckWait/5)
		s.nothing(elsewhere, s.o.AckWait/5)
	}
	return told
}

func manyWorkers(s *suite) { s.repeat(func() bool { return eachOnce(s) }) }

// eachOnce tells whether many workers got each offer once. It is false if an offer came again when its lease
// may have expired before the server read the acknowledgement: this machine may be suspended for
// that long. An offer that comes again sooner is a fault.
func eachOnce(s *suite) bool {
	const tasks, handles, workers = 120, 3, 4
	var mu sync.Mutex
	seen := map[task.ID]int{}
	again := map[task.ID]time.Time{} // when an offer came for the second time; both guarded by mu
	done := make(chan struct{})
	ctx, stop := context.WithCancel(s.Context()) // the test is bounded by its wait for all
	var wg sync.WaitGroup
	worker := func(offers events.Offers) error {
		for {
			offer, err := offers.Next(ctx)
			if err != nil {
				return err
			}
			if err := offer.Ack(); err != nil {
				return fmt.Errorf("ack: %w", err)
			}
			mu.Lock()
			seen[offer.Fact.Task]++
			if seen[offer.Fact.Task] == 2 {
				again[offer.Fact.Task] = time.Now()
			}
			if len(seen) == tasks && seen[offer.Fact.Task] == 1 {
				close(done)
			}
			mu.Unlock()
		}
	}
	for range handles {
		offers := s.offers("default")
		defer offers.Close()
		for range workers {
			wg.Go(func() {
				if err := worker(offers); !errors.Is(err, context.Canceled) {
					s.Errorf("a worker ended: %v", err)
				}
			})
		}
	}
	submitted := map[task.ID]time.Time{}
	for range tasks {
		before := time.Now()
		submitted[s.submit("default")] = before
	}
	select {
	case <-done:
	case <-s.context().Done():
		s.Error("not all offers were handed out")
	}
	s.wait(s.o.AckWait + s.o.AckWait/2) // a second delivery would have come by now
	stop()
	wg.Wait()
	if len(seen) != tasks {
		s.Errorf("%d of %d tasks were handed out", len(seen), tasks)
	}
	for id, at := range again {
		if after := at.Sub(submitted[id]); after < s.o.AckWait {
			s.Errorf("task %s was handed out again %v after it was submitted", id, after)
		}
	}
	return len(again) == 0
}

// A first offer or birth is refused only where the task has one already.
func firstOffers(s *suite) {
	held, elsewhere := s.task(), s.task()
	w := work("default")
	w.Needs, w.Holds = &task.Needs{Of: []task.Need{{Task: s.task()}}}, []string{task.HoldNeeds}
	s.place(s.fact(held, task.Submitted{Work: w}))
	s.place(s.fact(elsewhere, task.Queued{Work: work("other"), Attempt: 1}))
	offer := func(id task.ID) *events.Fact { return s.fact(id, task.Queued{Work: work("default"), Attempt: 1}) }
	place := func(facts ...*events.Fact) (seqs []uint64, errs []error) {
		s.log.PlaceAll(s.context(), facts, true, func(i int, seq uint64, err error) {
			if i != len(seqs) {
				s.Errorf("the outcome of fact %d came after %d others", i, len(seqs))
			}
			seqs, errs = append(seqs, seq), append(errs, err)
		})
		return seqs, errs
	}
	first := offer(held)
	seqs, errs := place(first, offer(elsewhere))
	if len(errs) != 2 || errors.Join(errs...) != nil {
		s.Fatalf("PlaceAll of first ones: %v, want two offers", errs)
	}
	if _, errs = place(offer(held)); !errors.Is(errs[0], events.ErrConflict) {
		s.Errorf("a second first offer: %v, want ErrConflict", errs[0])
	}
	offers := s.offers("default")
	got := s.next(offers)
	s.same(&got.Record, events.KindOffer, seqs[0], first)
	s.ack(got)
	s.ack(s.next(offers))
	if _, errs = place(offer(held)); !errors.Is(errs[0], events.ErrConflict) {
		s.Errorf("a first offer after one that is over: %v, want ErrConflict", errs[0])
	}
	s.nothing(offers, s.o.AckWait/4)

	for name, birth := range map[string]task.Submitted{"offered": {Work: work("born")}, "due later": {Work: work("born"), Due: now().Add(time.Hour)}} {
		id := s.task()
		born := func() *events.Fact { return s.fact(id, birth) }
		if _, errs = place(born()); errs[0] != nil {
			s.Fatalf("a first birth, %s: %v", name, errs[0])
		}
		if _, errs = place(born()); !errors.Is(errs[0], events.ErrConflict) {
			s.Errorf("a second first birth, %s: %v, want ErrConflict", name, errs[0])
		}
	}
}

// A source that is opened after a rate was set knows the rate.
func ratedOffers(s *suite) {
	r := &events.Recorder{Log: s.log, Actor: "logtest", Now: now, NewID: func(time.Time) string { return s.id() }}
	set := func(rate limit.Rate) queue.Queue {
		s.Helper()
		q, _, err := r.DoQueue(s.context(), "default", queue.Limit{Rate: &rate})
		if err != nil {
			s.Fatal(err)
		}
		return q
	}
	before := s.offers("default")
	s.submit("default")
	if offer := s.next(before); offer.Rate != (queue.Rate{}) {
		s.Errorf("before there is a rate the offer has %+v", offer.Rate)
	} else {
		s.ack(offer)
	}
	q := set(limit.Rate{Limit: 5})
	want := queue.Rate{Queue: "default", Since: q.RateSince}
	if q.RateSince == 0 {
		s.Error("nobody knows since when the rate is")
	}
	s.submit("default")
	if offer := s.next(s.offers("default")); offer.Rate != want {
		s.Errorf("the offer has the rate %+v, want %+v", offer.Rate, want)
	} else {
		s.ack(offer)
	}
	other := s.offers("other")
	s.submit("other")
	if offer := s.next(other); offer.Rate != (queue.Rate{}) {
		s.Errorf("the rate of another queue came with an offer: %+v", offer.Rate)
	} else {
		s.ack(offer)
	}
	set(limit.Rate{})
	s.submit("default")
	if offer := s.next(s.offers("default")); offer.Rate != (queue.Rate{}) {
		s.Errorf("the rate is gone, and the offer has %+v", offer.Rate)
	} else {
		s.ack(offer)
	}
}

// A source that is opened after a queue got a window that is open knows the window.
func windowedOffers(s *suite) {
	r := &events.Recorder{Log: s.log, Actor: "logtest", Now: now, NewID: func(time.Time) string { return s.id() }}
	def := task.Named(task.DefCalendar, "open")
	f := &events.Fact{ID: s.id(), At: now(), Type: events.DefinitionApplied, Def: def, Event: task.DefinitionApplied{
		Edition: task.Edition{Revision: 1, Text: []byte(`{"name":"open","rules":[{"closed":"2000-01-01"}]}`)},
	}}
	if _, err := s.log.Append(s.context(), f, 0); err != nil {
		s.Fatal(err)
	}
	for _, want := range []string{"", "open", ""} {
		if _, _, err := r.DoQueue(s.context(), "default", queue.Limit{Window: &want}); err != nil {
			s.Fatal(err)
		}
		for queue, want := range map[string]string{"default": want, "other": ""} {
			s.submit(queue)
			offer := s.next(s.offers(queue))
			if s.ack(offer); offer.Valve.Window != want {
				s.Errorf("an offer of the queue %s has the window %q, want %q", queue, offer.Valve.Window, want)
			}
		}
	}
}
