package jet

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	"millrace/events/jet/names"
	"millrace/events/jet/streams"
	"millrace/internal/testkit"
	"millrace/task"
	"millrace/task/node"
	"millrace/task/placement"
)

// aimAt places the birth of a task with a priority and a fair key on a node's own route.
func aimAt(t testing.TB, s *Store, id node.ID, priority int, key string) uint64 {
	t.Helper()
	work := testWork("default")
	work.Route, work.FairKey = placement.NodeRoute(string(id), priority), key
	return must(s.Place(within(t), newFact(newTask(), task.Submitted{Work: work})))(t)
}

// stocked has a node read its own route ahead, as a slot that waits does, until so many are here.
func stocked(t *testing.T, o *offers, n int) {
	t.Helper()
	o.mu.Lock()
	own := o.own.src
	own.pulled += own.ahead
	o.mu.Unlock()
	own.pull.Want(own.ahead)
	testkit.Eventually(t, "the node has read its own route", func() bool { o.mu.Lock(); defer o.mu.Unlock(); return own.n == n })
}

// Offers that wait when the node comes are handed out by priority, from the first one on, and none
// starves.
func TestTheMoreUrgentFirstOnAnOwnRoute(t *testing.T) {
	t.Parallel()
	for _, queues := range [][]string{{"@n1"}, {"a", "@n1"}} {
		s := newStore(t, streams.Layout{AckWait: time.Minute})
		for range 30 {
			for _, p := range []int{1, 5, 9} {
				aimAt(t, s, "n1", p, "")
			}
		}
		o := offersOf(t, s, queues...)
		o.mu.Lock()
		o.patience = patience // however slow the machine is
		o.mu.Unlock()
		took := takeAll(t, o, 90)
		first := map[int]int{}
		for _, l := range took[:20] {
			first[l.Priority]++
		}
		if took[0].Priority != 9 || first[9] != 18 || first[5] != 1 || first[1] != 1 {
			t.Errorf("with %v: the first was of %d, and of the first 20 so many were of each priority: %v; want 18 of 9 and 1 of each other", queues, took[0].Priority, first)
		}
		settled(t, o)

		// An urgent offer that comes while others run goes before those that wait.
		for range 20 {
			aim(t, s, "n1")
		}
		takeAll(t, o, 20)
		urgent := make(chan *events.Offer)
		go func() { offer, _ := o.Next(within(t)); urgent <- offer }()
		testkit.Eventually(t, "a place is free", func() bool { o.mu.Lock(); defer o.mu.Unlock(); return len(o.waiting) == 1 })
		aimAt(t, s, "n1", 10, "")
		if offer := <-urgent; offer == nil || offer.Fact.Event.(task.Submitted).Route.Priority() != 10 || offer.Ack() != nil {
			t.Errorf("with %v: %+v came, want the task of priority 10", queues, offer)
		}
		settled(t, o)
	}
}

// Offers for the node alone have their turn as often as the heaviest of its queues.
func TestOwnRouteBesideABacklog(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{AckWait: time.Minute})
	for range 60 {
		submit(t, s, "crawl")
		submit(t, s, "default")
	}
	for i := range 20 {
		aimAt(t, s, "n1", 5+i%2, "")
	}
	o := offersOf(t, s, "crawl", "default", "@n1")
	o.Weigh(map[string]int{"crawl": 3})
	stocked(t, o, 20)
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
	s := newStore(t, streams.Layout{AckWait: time.Minute})
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
	o := offersOf(t, s, "@n1")
	stocked(t, o, 105)
	n := 0
	for _, l := range takeAll(t, o, 11) {
		if l.Number == lane(small) {
			n++
		}
	}
	if n != 5 {
		t.Errorf("of the first 11 tasks %d were of the key with few, want all 5", n)
	}
}

// Many slots take everything once, and the server delivers nothing in vain.
func TestManySlotsAndAnOwnRoute(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{AckWait: time.Minute})
	o := offersOf(t, s, "a", "@n1")
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
	settled(t, o)
}

// A node reads a window ahead and no further. Offers that it has read stay leased to it while its
// slots are taken. When the node ends, its next process gets the returned offers at once; so it
// does after the node was killed.
func TestWindowOfAnOwnRoute(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{AckWait: 2 * time.Second})
	const more = 40
	for range ownWindow + more {
		aim(t, s, "n1")
	}
	info := func() *jetstream.ConsumerInfo {
		return must(s.JS.Consumer(within(t), names.LogStream, names.NodeConsumer("n1")))(t).CachedInfo()
	}
	open := func() *offers { return must(s.Offers(within(t), []string{"@n1"}))(t).(*offers) }
	first := open()
	held := next(t, first)
	// If a window comes slowly, only a part is read, for the first offers are handed out before the
	// rest is here.
	testkit.Eventually(t, "it reads ahead", func() bool { return info().NumAckPending > 1 })
	if left := info().NumPending; left < more {
		t.Errorf("%d lie behind the window, want %d at least", left, more)
	}
	read := time.Now()
	testkit.Eventually(t, "leases would have run out", func() bool {
		return held.Extend(within(t)) == nil && time.Since(read) > 3*time.Second
	})
	for range 3 { // expired leases come first
		prove(t, first)
	}
	if n := info().NumRedelivered; n > 0 {
		t.Errorf("%d were handed out again, though the node still has them", n)
	}
	if err := held.Ack(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the server knows", func() bool { return info().AckFloor.Stream == held.Seq })
	first.Close()
	second := open()
	if offer := next(t, second); offer.Seq != held.Seq+1 {
		t.Errorf("after the end of a process %d came first, want %d", offer.Seq, held.Seq+1)
	}
	testkit.Eventually(t, "it reads ahead again", func() bool { return info().NumAckPending > 1 })
	second.stopLooking() // killed: it returns nothing, and prolongs nothing
	close(second.closed)
	for _, s := range second.all() {
		s.pull.Close()
	}
	third := open()
	t.Cleanup(third.Close)
	began := time.Now()
	if offer := next(t, third); offer.Seq != held.Seq+1 || time.Since(began) > time.Second {
		t.Errorf("after a kill %d came first after %v, want %d at once", offer.Seq, time.Since(began), held.Seq+1)
	}
}

// A node that proves itself pulls what waits in the plain lane, and hands it out when that lane has
// its turn: neither before the more urgent offers nor after the others, and the offers do not stay
// with the node for long.
func TestOrderBehindAProof(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{AckWait: time.Minute})
	for i := range 40 {
		id := node.ID(fmt.Sprintf("n%d", i))
		for _, p := range []int{3, 5, 8, 9, 10} {
			aimAt(t, s, id, p, "")
		}
		o := must(s.Offers(within(t), []string{id.Queue()}))(t).(*offers)
		prove(t, o)
		stocked(t, o, 5)
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
