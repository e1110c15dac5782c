package jet

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"millrace/events"
	"millrace/node"
	"millrace/task"
)

// aimAt places the birth of a task with a priority and a fair key on a node's own route.
func aimAt(t testing.TB, s *Store, id node.ID, priority int, key string) uint64 {
	t.Helper()
	work := testWork("default")
	work.Route, work.FairKey = task.NodeRoute(string(id), priority), key
	return must(s.Place(within(t), newFact(newTask(), task.Submitted{Work: work})))(t)
}

func ownLaneOf(priority int) task.Lane { return task.Lane{Queue: "@n1", Priority: priority} }

// served waits until a special lane of the own route is served.
func served(t testing.TB, o *offers, l task.Lane) *source {
	t.Helper()
	var found *source
	eventually(t, fmt.Sprintf("%+v is served", l), func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		for _, s := range o.sources {
			if s.lane == l {
				found = s
			}
		}
		return found != nil
	})
	return found
}

// besides tells whether the own route is pulled beside what is asked.
func besides(o *offers) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.beside != nil
}

// What waits when the node comes is handed out by priority, the first task included, and nothing starves.
func TestTheMoreUrgentFirstOnAnOwnRoute(t *testing.T) {
	t.Parallel()
	for _, queues := range [][]string{{"@n1"}, {"a", "@n1"}} {
		s := newStore(t, Layout{AckWait: time.Minute})
		for range 30 {
			for _, p := range []int{1, 5, 9} {
				aimAt(t, s, "n1", p, "")
			}
		}
		o := offersOf(t, s, queues...)
		took := takeAll(t, o, 90)
		first := map[int]int{}
		for _, l := range took[:20] {
			first[l.Priority]++
		}
		if took[0].Priority != 9 || first[9] != 18 || first[5] != 1 || first[1] != 1 {
			t.Errorf("with %v: the first was of %d, and of the first 20 so many were of each priority: %v; want 18 of 9 and 1 of each other", queues, took[0].Priority, first)
		}
		settled(t, o)

		// What comes while others run goes before what waits.
		for range 20 {
			aim(t, s, "n1")
		}
		takeAll(t, o, 5)
		<-time.After(o.spellNow() * 2) // else it may have been looked for a moment ago
		aimAt(t, s, "n1", 10, "")      // a lane that nobody had seen
		served(t, o, ownLaneOf(10))
		if l := takeAll(t, o, 1)[0]; l.Priority != 10 {
			t.Errorf("with %v: priority %d came before 10", queues, l.Priority)
		}
		takeAll(t, o, 15)
		settled(t, o)
	}
}

// What is meant for the node alone has its turn as often as the heaviest of its queues.
func TestOwnLanesBesideABacklog(t *testing.T) {
	t.Parallel()
	s := newStore(t, Layout{AckWait: time.Minute})
	for range 60 {
		submit(t, s, "crawl")
		submit(t, s, "default")
	}
	for i := range 20 {
		aimAt(t, s, "n1", 5+i%2, "")
	}
	o := offersOf(t, s, "crawl", "default", "@n1")
	o.Weigh(map[string]int{"crawl": 3})
	count := map[string]int{}
	for _, l := range takeAll(t, o, 35) {
		count[l.Queue]++
	}
	if count["@n1"] != 15 || count["crawl"] != 15 {
		t.Errorf("of 35 tasks with the weights 3, 1 and the own route so many were of each: %v", count)
	}
}

func TestFairKeysOnAnOwnRoute(t *testing.T) {
	t.Parallel()
	s := newStore(t, Layout{AckWait: time.Minute})
	lane := func(key string) int { return (&task.Work{FairKey: key}).Lane().Number }
	big, small := "tenant-1", "tenant-2"
	for lane(small) == lane(big) {
		small += "x"
	}
	for range 100 {
		aimAt(t, s, "n1", 5, big)
	}
	for range 5 {
		aimAt(t, s, "n1", 5, small)
	}
	n := 0
	for _, l := range takeAll(t, offersOf(t, s, "@n1"), 11) {
		if l.Number == lane(small) {
			n++
		}
	}
	if n != 5 {
		t.Errorf("of the first 11 tasks %d were of the key with few, want all 5", n)
	}
}

// Without special lanes the own route is pulled beside all else, and so it is again when they
// have been idle for long. A lane that was let go is served again with its next offer, also one that a timer brings.
func TestOwnLanesAreLetGo(t *testing.T) {
	t.Parallel()
	s := newStore(t, Layout{AckWait: time.Minute})
	o := offersOf(t, s, "a", "@n1")
	aim(t, s, "n1")
	takeAll(t, o, 1)
	if !besides(o) {
		t.Fatal("the only lane of the own route is asked by turns")
	}
	waiting := make(chan *events.Offer, 1)
	wait := func() { offer, _ := o.Next(within(t)); waiting <- offer }
	go wait() // from before there is another lane until it is gone
	eventually(t, "somebody waits", func() bool { o.mu.Lock(); defer o.mu.Unlock(); return len(o.waiting) == 1 })
	aimAt(t, s, "n1", 9, "")
	held := <-waiting
	served(t, o, ownLaneOf(9))
	if besides(o) {
		t.Error("with two lanes the own route is still pulled beside")
	}
	o.special.letGo(within(t), time.Now())
	o.special.letGo(within(t), time.Now().Add(2*laneIdle))
	if besides(o) {
		t.Error("a lane was let go from which something is out")
	}
	if err := held.Ack(); err != nil {
		t.Fatal(err)
	}
	go wait()
	eventually(t, "the lane is let go", func() bool {
		o.special.letGo(within(t), time.Now().Add(2*laneIdle))
		return besides(o)
	})
	aim(t, s, "n1")
	if err := (<-waiting).Ack(); err != nil {
		t.Fatal(err)
	}
	settled(t, o)

	id := newTask()
	work := testWork("default")
	work.Route = task.NodeRoute("n1", 9)
	e := task.Queued{Work: work, Attempt: 1, Due: time.Now()}
	if err := s.Arm(within(t), newFact(id, e)); err != nil {
		t.Fatal(err)
	}
	if offer := next(t, o); offer.Fact.Task != id {
		t.Errorf("got the offer of %s, want that of the timer for %s", offer.Fact.Task, id)
	}
	settled(t, o)
}

// The consumers are lost while leases are out and every place is taken: all come again from where the
// node had got to, leases go on, nothing is missed.
func TestOwnLanesAreMadeAgain(t *testing.T) {
	t.Parallel()
	s := newStore(t, Layout{AckWait: 30 * time.Second})
	o := offersOf(t, s, "a", "@n1")
	prove(t, o)
	var seqs []uint64
	for range 4 {
		seqs = append(seqs, aimAt(t, s, "n1", 9, ""))
	}
	lane := ownLaneOf(9)
	served(t, o, lane)
	held := []*events.Offer{next(t, o), next(t, o)}
	if err := held[0].Ack(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server knows what is settled", func() bool {
		return must(s.js.Consumer(within(t), LogStream, laneConsumer(lane)))(t).CachedInfo().NumAckPending == 1
	})
	if _, low := o.Low(); low != seqs[1] {
		t.Errorf("in special lanes all below %d is done with, want below %d", low, seqs[1])
	}
	for _, name := range []string{laneConsumer(lane), ownLanesConsumer("n1")} {
		if err := s.log.DeleteConsumer(within(t), name); err != nil {
			t.Fatal(err)
		}
	}
	signal(o.back) // as the connection does when it is back
	eventually(t, "it is made again", func() bool {
		c, err := s.js.Consumer(within(t), LogStream, laneConsumer(lane))
		if err != nil {
			return false
		}
		if c := c.CachedInfo().Config; c.OptStartSeq != seqs[1] || !c.MemoryStorage || c.Replicas != 1 || c.Metadata["millrace.node"] != "n1" {
			t.Fatalf("it was made again as %+v, want from %d, in memory, on one server", c, seqs[1])
		}
		return true
	})
	eventually(t, "the lease goes on", func() bool { return held[1].Extend(within(t)) == nil })
	if err := held[1].Ack(); err != nil {
		t.Fatal(err)
	}
	fresh := aimAt(t, s, "n1", 2, "") // whoever tells of lanes is there again, too
	got := map[uint64]bool{}
	for !got[seqs[2]] || !got[seqs[3]] || !got[fresh] {
		offer := next(t, o)
		if got[offer.Seq] = true; offer.Seq == seqs[0] || offer.Seq == seqs[1] {
			t.Errorf("offer %d came again", offer.Seq)
		}
		if err := offer.Ack(); err != nil {
			t.Fatal(err)
		}
	}
	settled(t, o)
}

// While other queues keep the node busy nobody stands at a lane; that its consumer is lost
// is found by who asks.
func TestLostOwnLaneBesideABacklog(t *testing.T) {
	t.Parallel()
	s := newStore(t, Layout{AckWait: time.Minute})
	o := offersOf(t, s, "a", "@n1")
	aimAt(t, s, "n1", 9, "")
	takeAll(t, o, 1)
	if err := s.log.DeleteConsumer(within(t), laneConsumer(ownLaneOf(9))); err != nil {
		t.Fatal(err)
	}
	urgent := aimAt(t, s, "n1", 9, "")
	eventually(t, "it comes", func() bool {
		submit(t, s, "a")
		submit(t, s, "a")
		offer := next(t, o)
		if err := offer.Ack(); err != nil {
			t.Fatal(err)
		}
		return offer.Seq == urgent
	})
}

// A later process finds what waits in special lanes, in order, whether their consumers are there or not, and does
// not begin with what its predecessor has settled.
func TestOwnLanesOfTheNextProcess(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		s := newStore(t, Layout{})
		first := offersOf(t, s, "@n1")
		var last uint64
		for range 3 {
			last = aimAt(t, s, "n1", 8, "")
			if err := next(t, first).Ack(); err != nil {
				t.Fatal(err)
			}
		}
		var low, lanes uint64
		eventually(t, "the node has been told of what it has settled", func() bool {
			low, lanes = first.Low()
			return lanes == last+1
		})
		first.Close()
		r := recorder(s)
		for _, c := range []node.Command{node.Register{Session: "s1"}, node.Beat{Session: "s1"}, node.Leave{Session: "s1", Low: low, LanesLow: lanes}} {
			if _, _, err := r.DoNode(within(t), "n1", c); err != nil {
				t.Fatal(err)
			}
		}
		if lost {
			dropRoute(t, s, "n1")
			if err := s.log.DeleteConsumer(within(t), laneConsumer(ownLaneOf(8))); err != nil {
				t.Fatal(err)
			}
		}
		waits := []uint64{aim(t, s, "n1"), aimAt(t, s, "n1", 8, ""), aimAt(t, s, "n1", 10, "")}
		second := offersOf(t, s, "@n1")
		for _, want := range []uint64{waits[2], waits[1], waits[0]} {
			offer := next(t, second)
			if offer.Seq != want || offer.Deliveries != 1 {
				t.Errorf("lost %v: offer %d came, want %d", lost, offer.Seq, want)
			}
			if err := offer.Ack(); err != nil {
				t.Fatal(err)
			}
		}
		settled(t, second)
	}
}

// What an earlier version has placed at another priority lies among the others; what is no lane is left alone.
func TestOwnRouteOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	s := newStore(t, Layout{AckWait: time.Minute})
	work := testWork("default")
	work.Route = "@n1.8"
	old := newTask()
	body := must(events.Encode(nil, newFact(old, task.Submitted{Work: work})))(t)
	seqs := []uint64{raw(t, s, "mr.queue.@n1.8."+string(old), nil, body), aim(t, s, "n1")}
	for _, subject := range []string{"mr.queue.@n1~.5-0.x", "mr.queue.@n1~.99-3.x", "mr.queue.@n1~.zwölf.x"} {
		raw(t, s, subject, nil, []byte("garbage"))
	}
	o := offersOf(t, s, "@n1")
	if !besides(o) {
		t.Error("garbage was taken for a lane")
	}
	for _, want := range seqs {
		if offer := next(t, o); offer.Seq != want {
			t.Errorf("got %d, want %d", offer.Seq, want)
		}
	}
	settled(t, o)
}

// Many slots take everything once while lanes come and go, and hardly anything is handed out in vain.
func TestManySlotsAndOwnLanes(t *testing.T) {
	t.Parallel()
	s := newStore(t, Layout{AckWait: time.Minute})
	o := offersOf(t, s, "a", "@n1")
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			o.special.letGo(ctx, time.Now().Add(2*laneIdle))
		}
	})
	takenOnce(t, []*offers{o}, 400, func(i int) {
		switch i % 4 {
		case 0:
			submit(t, s, "a")
		case 1:
			aim(t, s, "n1")
		default:
			aimAt(t, s, "n1", 1+i%10, []string{"", fmt.Sprint(i % 7)}[i%3%2])
		}
	})
	cancel()
	wg.Wait()
	settled(t, o)
}

// A node that proves itself pulls what waits in the plain lane, and hands it out when that lane has
// its turn: neither before the more urgent ones nor after the others, and it does not lie with the node for long.
func TestOrderBehindAProof(t *testing.T) {
	t.Parallel()
	s := newStore(t, Layout{AckWait: time.Minute})
	for i := range 40 {
		id := node.ID(fmt.Sprintf("n%d", i))
		for _, p := range []int{3, 5, 8, 9, 10} {
			aimAt(t, s, id, p, "")
		}
		o := must(s.Offers(within(t), []string{id.Queue()}))(t)
		prove(t, o)
		var order []int
		for range 5 {
			offer := next(t, o)
			order = append(order, offer.Fact.Event.(task.Submitted).Route.Priority())
			if err := offer.Ack(); err != nil {
				t.Fatal(err)
			}
		}
		o.Close()
		if !slices.Equal(order, []int{10, 9, 8, 5, 3}) {
			t.Errorf("%s: they came in the order of priorities %v", id, order)
		}
	}
}

// Whoever asks another lane does not get what a proof has brought.
func TestProofBesideASlot(t *testing.T) {
	t.Parallel()
	s := newStore(t, Layout{AckWait: time.Minute})
	o := must(s.Offers(within(t), []string{"@n1"}))(t).(*offers)
	t.Cleanup(o.Close)
	plain, urgent := o.sources[0], ownLaneOf(9)
	aimAt(t, s, "n1", 9, "")
	src := served(t, o, urgent)
	if err := next(t, o).Ack(); err != nil {
		t.Fatal(err)
	}
	w := &waiter{got: make(chan *events.Offer, 1), stance: stance{at: src}} // it has asked, and there is no answer yet
	o.mu.Lock()
	o.waiting = append(o.waiting, w)
	o.mu.Unlock()
	aim(t, s, "n1")
	prove(t, o)
	eventually(t, "the plain lane's offer is kept", func() bool { o.mu.Lock(); defer o.mu.Unlock(); return len(plain.kept) == 1 })
	select {
	case offer := <-w.got:
		t.Fatalf("the offer %d of the plain lane went to who asked another one", offer.Seq)
	default:
	}
	if _, waits := o.leave(w); !waits {
		t.Error("the waiter is gone")
	}
	offer := next(t, o)
	if offer.Deliveries != 1 {
		t.Errorf("it was delivered %d times", offer.Deliveries)
	}
	if err := offer.Ack(); err != nil {
		t.Fatal(err)
	}
	settled(t, o)
}
