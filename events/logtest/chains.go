package logtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"millrace/events"
	"millrace/task"
	"millrace/task/node"
)

var chainCases = []testCase{
	{name: "append at 0 and at the head", body: appendAtHead},
	{name: "append elsewhere conflicts", body: appendElsewhere},
	{name: "offers do not move the chain", body: offersAreNoChain},
	{name: "of racing writers one wins", body: race},
	{name: "chains are independent", body: independent},
	{name: "a task and a node of one name have two chains", body: namesakes},
	{name: "large facts", body: large},
	{name: "nothing is written for a caller that has left", body: leftBefore},
}

func appendAtHead(s *suite) {
	id := s.task()
	first, second := s.fact(id, task.AttemptStarted{Attempt: 1, Node: "n1"}), s.fact(id, note("second"))
	a := s.append(first, 0)
	b := s.append(second, a)
	if a == 0 || b <= a {
		s.Fatalf("sequences %d and then %d; want them to grow from 1", a, b)
	}
	records := s.history(id)
	if len(records) != 2 {
		s.Fatalf("the task has %d records, want 2", len(records))
	}
	s.same(&records[0], events.KindChain, a, first)
	s.same(&records[1], events.KindChain, b, second)
}

func appendElsewhere(s *suite) {
	id := s.task()
	refused := func(last uint64) {
		s.Helper()
		before := sequences(s.history(id))
		seq, err := s.log.Append(s.context(), s.fact(id, note("refused")), last)
		if !errors.Is(err, events.ErrConflict) {
			s.Fatalf("Append at %d: %d, %v; want ErrConflict", last, seq, err)
		}
		if after := sequences(s.history(id)); !slices.Equal(before, after) {
			s.Fatalf("a refused Append at %d left %v where there was %v", last, after, before)
		}
	}
	refused(7)
	other := s.append(s.fact(s.task(), note("of another task")), 0)
	refused(other)
	a := s.append(s.fact(id, note("a")), 0)
	b := s.append(s.fact(id, note("b")), a)
	for _, last := range []uint64{0, other, a, b + 1, b + 1000} {
		refused(last)
	}
	s.append(s.fact(id, note("c")), b)
}

func leftBefore(s *suite) {
	ctx, leave := context.WithCancel(s.context())
	leave()
	id := s.task()
	fact, offer := s.fact(id, note("too late")), s.fact(id, task.Queued{Work: work("default"), Attempt: 1})
	refused := func(way string, err error) {
		s.Helper()
		if !errors.Is(err, context.Canceled) || errors.Is(err, events.ErrUnknown) {
			s.Errorf("%s: %v; want the error of the context, and no doubt", way, err)
		}
	}
	_, err := s.log.Append(ctx, fact, 0)
	refused("Append", err)
	_, err = s.log.AppendAll(ctx, []*events.Fact{fact}, []uint64{0})
	refused("AppendAll", err)
	_, err = s.log.Place(ctx, offer)
	refused("Place", err)
	_, err = s.log.PlaceClaimed(ctx, offer, "key", 0, false)
	refused("PlaceClaimed", err)
	s.log.PlaceAll(ctx, []*events.Fact{offer, offer}, false, func(_ int, _ uint64, err error) { refused("PlaceAll", err) })
	s.append(s.fact(id, note("in time")), 0)
	if records := s.history(id); len(records) != 1 {
		s.Errorf("the task has %d records, want 1", len(records))
	}
}

func offersAreNoChain(s *suite) {
	id := s.task()
	s.place(s.fact(id, task.Submitted{Work: work("default")}))
	a := s.append(s.fact(id, note("a")), 0)
	s.place(s.fact(id, task.Queued{Work: work("default"), Attempt: 2, After: a}))
	s.append(s.fact(id, note("b")), a)
}

func race(s *suite) {
	const writers, rounds = 8, 12
	id, head := s.task(), uint64(0)
	for round := range rounds {
		head = s.race(writers, head, func(w int) *events.Fact {
			return s.fact(id, note(fmt.Sprintf("round %d, writer %d", round, w)))
		})
	}
	if n := len(s.history(id)); n != rounds {
		s.Fatalf("the chain has %d records after %d rounds", n, rounds)
	}
}

// race has writers append their facts at once behind the same head. One of them must win; race
// returns the sequence of its fact.
func (s *suite) race(writers int, head uint64, fact func(w int) *events.Fact) uint64 {
	s.Helper()
	var wg sync.WaitGroup
	var wins atomic.Int32
	var winner atomic.Uint64
	start := make(chan struct{})
	for w := range writers {
		f, ctx := fact(w), s.context()
		wg.Go(func() {
			<-start
			seq, err := s.log.Append(ctx, f, head)
			switch {
			case err == nil:
				wins.Add(1)
				winner.Store(seq)
			case !errors.Is(err, events.ErrConflict):
				s.Errorf("a loser got %v, want ErrConflict", err)
			}
		})
	}
	close(start)
	wg.Wait()
	if wins.Load() != 1 {
		s.Fatalf("behind %d, %d of %d writers have won, want 1", head, wins.Load(), writers)
	}
	return winner.Load()
}

func independent(s *suite) {
	const chains, length = 8, 15
	var wg sync.WaitGroup
	for range chains {
		id, ctx := s.task(), s.context()
		wg.Go(func() {
			head := uint64(0)
			for i := range length {
				seq, err := s.log.Append(ctx, s.fact(id, note(fmt.Sprint(i))), head)
				if err != nil {
					s.Errorf("append %d of task %s: %v", i, id, err)
					return
				}
				head = seq
			}
			if records, err := s.log.Task(ctx, id); err != nil || len(records) != length {
				s.Errorf("task %s has %d records (%v), want %d", id, len(records), err, length)
			}
		})
	}
	wg.Wait()
}

func namesakes(s *suite) {
	id := s.task()
	name := node.ID(id)
	ofTask := s.append(s.fact(id, note("a task")), 0)
	registered := s.nodeFact(name, node.Registered{Session: "s1", Profile: node.Profile{Slots: 2, Queues: []string{"default"}}})
	online := s.nodeFact(name, node.WentOnline{Session: "s1"})
	a := s.append(registered, 0)
	b := s.append(online, a)
	if _, err := s.log.Append(s.context(), s.nodeFact(name, node.Drained{Session: "s1"}), a); !errors.Is(err, events.ErrConflict) {
		s.Errorf("Append at a node's stale head: %v, want ErrConflict", err)
	}
	s.append(s.fact(id, note("still the task")), ofTask)

	records, err := s.log.Node(s.context(), name, 0)
	if err != nil || len(records) != 2 {
		s.Fatalf("the node has %d records (%v), want 2", len(records), err)
	}
	s.same(&records[0], events.KindNode, a, registered)
	s.same(&records[1], events.KindNode, b, online)
	if n := events.FoldNode(name, records); n.State != node.Online || n.Head != b {
		s.Errorf("the node folds to %s at %d, want online at %d", n.State, n.Head, b)
	}
	if n := len(s.history(id)); n != 2 {
		s.Errorf("the task has %d records, want 2", n)
	}
}

func large(s *suite) {
	id := s.task()
	birth := task.Submitted{Work: work("large")}
	birth.Params = bigJSON(400_000)
	f := s.fact(id, birth)
	seq := s.place(f)
	offer := s.next(s.offers("large"))
	s.same(&offer.Record, events.KindOffer, seq, f)
	s.ack(offer)
	done := s.fact(id, task.AttemptFinished{Attempt: 1, Epoch: 1, Result: bigJSON(400_000)})
	seq = s.append(done, 0)
	records := s.history(id)
	s.same(&records[len(records)-1], events.KindChain, seq, done)

	tooLarge := work("large")
	tooLarge.Params = bigJSON(events.MaxFact)
	_, appendErr := s.log.Append(s.context(), s.fact(id, task.AttemptFinished{Result: bigJSON(events.MaxFact)}), seq)
	_, placeErr := s.log.Place(s.context(), s.fact(id, task.Submitted{Work: tooLarge}))
	for name, err := range map[string]error{"Append": appendErr, "Place": placeErr} {
		if !errors.Is(err, events.ErrTooLarge) {
			s.Errorf("%s of more than MaxFact: %v, want ErrTooLarge", name, err)
		}
	}
	if n := len(s.history(id)); n != 2 {
		s.Errorf("the task has %d records, want 2: what is refused is not recorded", n)
	}
}
