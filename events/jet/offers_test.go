package jet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"millrace/events"
	"millrace/events/jet/embed"
	"millrace/events/jet/names"
	"millrace/events/jet/natstest"
	"millrace/events/jet/streams"
	"millrace/internal/testkit"
	"millrace/task"
)

func ackPending(t *testing.T, s *Store, queue string) int {
	t.Helper()
	c := must(s.JS.Consumer(within(t), names.LogStream, names.ConsumerName(queue)))(t)
	return c.CachedInfo().NumAckPending
}

// settled checks that the pullers ask for what the waiters want, which is nothing, and for what is
// read ahead.
func settled(t *testing.T, o *offers) {
	t.Helper()
	testkit.Eventually(t, "nobody waits and nothing is wanted", func() bool {
		o.mu.Lock()
		waiting := len(o.waiting)
		for _, s := range o.sources {
			if s.ahead > 0 {
				waiting -= s.pulled
			}
		}
		o.mu.Unlock()
		for _, s := range o.all() {
			pulls, asks := s.pull.Waiting(), s.ask.Waiting()
			waiting += max(pulls, -pulls) + max(asks, -asks)
		}
		return waiting == 0
	})
}

func next(t *testing.T, o events.Offers) *events.Offer {
	t.Helper()
	return must(o.Next(within(t)))(t)
}

func TestNoMoreOffersThanPlaces(t *testing.T) {
	t.Parallel()
	for _, queues := range [][]string{{"a"}, {"a", "b"}, {"a", "b", "c"}} {
		s := newStore(t, streams.Layout{AckWait: time.Minute})
		o := offersOf(t, s, queues...)
		const backlog, places = 40, 5
		for range backlog {
			for _, queue := range queues {
				submit(t, s, queue)
			}
		}
		var wg sync.WaitGroup
		for range places {
			wg.Go(func() {
				if _, err := o.Next(within(t)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		settled(t, o)
		if n := ackPending(t, s, "a"); len(queues) == 1 && n != places {
			t.Errorf("%d offers are out, want %d", n, places)
		}
		// An offer that came for a slot that another queue had filled was returned, so other
		// workers get all the rest long before a lease expires.
		others := offersOf(t, s, queues...)
		for range backlog*len(queues) - places {
			if err := next(t, others).Ack(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// An offer that comes just as its waiter leaves must not spoil the count of wanted offers.
func TestNextAtTheSameMomentAsItsOffer(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{AckWait: time.Minute})
	for _, queues := range [][]string{{"a"}, {"a", "b"}} {
		o := offersOf(t, s, queues...)
		rng := rand.New(rand.NewPCG(1, uint64(len(queues))))
		for range 150 {
			ctx, cancel := context.WithCancel(t.Context())
			got := make(chan *events.Offer, 1)
			go func() {
				offer, _ := o.Next(ctx)
				got <- offer
			}()
			open := len(queues)
			for _, queue := range queues {
				submit(t, s, queue)
			}
			for range rng.IntN(2000) { // a moment too short for a timer
				_ = ctx.Err()
			}
			cancel()
			if offer := <-got; offer != nil {
				open--
				if err := offer.Ack(); err != nil {
					t.Fatal(err)
				}
			}
			for range open {
				if err := next(t, o).Ack(); err != nil {
					t.Fatal(err)
				}
			}
		}
		settled(t, o)
	}
}

// The same, with the moment stretched: the waiter has left, and the pullers do
// not know it yet.
func TestOfferForAWaiterThatHasLeft(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{AckWait: time.Minute})
	o := offersOf(t, s, "a")
	w := &waiter{got: make(chan *events.Offer, 1)}
	o.mu.Lock()
	o.waiting = append(o.waiting, w)
	o.count(nil, 1)
	came := o.aim(nil)
	o.mu.Unlock()
	apply(came)
	o.mu.Lock()
	o.remove(0)
	left := o.aim(nil)
	o.mu.Unlock()
	id := submit(t, s, "a")
	testkit.Eventually(t, "the offer was handed out", func() bool { return ackPending(t, s, "a") == 1 })
	apply(left)
	offer := next(t, o)
	if offer.Fact.Task != id {
		t.Errorf("got the offer of task %s, want %s", offer.Fact.Task, id)
	}
	settled(t, o)
}

func TestCancelledNextLosesNoOffer(t *testing.T) {
	t.Parallel()
	const workers = 200
	s := newStore(t, streams.Layout{AckWait: time.Minute})
	o := offersOf(t, s, "a", "b")
	var mu sync.Mutex
	seen := map[task.ID]int{}
	var wg sync.WaitGroup
	work := func(ctx context.Context) {
		offer, err := o.Next(ctx)
		if err != nil {
			return
		}
		mu.Lock()
		seen[offer.Fact.Task]++
		mu.Unlock()
		if err := offer.Ack(); err != nil {
			t.Error(err)
		}
	}
	rng := rand.New(rand.NewPCG(3, 4))
	var cancels []context.CancelFunc
	for i := range workers {
		ctx, cancel := context.WithCancel(t.Context())
		if i%2 == 0 {
			cancels = append(cancels, cancel)
		} else {
			t.Cleanup(cancel)
		}
		wg.Go(func() { work(ctx) })
	}
	rng.Shuffle(len(cancels), func(i, j int) { cancels[i], cancels[j] = cancels[j], cancels[i] })
	for i := range workers {
		submit(t, s, []string{"a", "b"}[i%2])
		if i < len(cancels) {
			cancels[i]()
		}
	}
	wg.Wait() // those that were not cancelled have theirs
	for {
		mu.Lock()
		missing := workers - len(seen)
		mu.Unlock()
		if missing == 0 {
			break
		}
		work(within(t)) // long before a lease could have run out
		if t.Failed() || within(t).Err() != nil {
			t.Fatalf("%d offers are lost", missing)
		}
	}
	settled(t, o)
	for id, n := range seen {
		if n != 1 {
			t.Errorf("the offer of task %s was handed out %d times", id, n)
		}
	}
}

// An offer on its way when a worker closes goes to another one at once.
func TestCloseGivesBack(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{AckWait: time.Minute})
	others := offersOf(t, s, "a")
	for range 20 {
		mine := offersOf(t, s, "a")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan *events.Offer, 1)
		go func() {
			offer, _ := mine.Next(ctx)
			ended <- offer
		}()
		testkit.Eventually(t, "it waits", func() bool {
			mine.mu.Lock()
			defer mine.mu.Unlock()
			return len(mine.waiting) == 1
		})
		id := submit(t, s, "a")
		mine.Close()
		mine.Close() // twice is harmless
		cancel()
		offer := <-ended
		if offer == nil {
			offer = next(t, others)
		}
		if offer.Fact.Task != id {
			t.Fatalf("got the offer of task %s, want %s", offer.Fact.Task, id)
		}
		if err := offer.Ack(); err != nil {
			t.Fatal(err)
		}
		if _, err := mine.Next(within(t)); err == nil {
			t.Fatal("Next of closed offers gave one")
		}
	}
}

// Unneeded requests of an idle worker do not hold up an offer.
func TestRequestsAreTakenBack(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{AckWait: time.Minute})
	idle, busy := offersOf(t, s, "a"), offersOf(t, s, "a")
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { _, _ = idle.Next(ctx) })
	}
	testkit.Eventually(t, "they wait", func() bool {
		c := must(s.JS.Consumer(within(t), names.LogStream, names.ConsumerName("a")))(t)
		return c.CachedInfo().NumWaiting > 0
	})
	cancel()
	wg.Wait()
	testkit.Eventually(t, "no request is left", func() bool {
		c := must(s.JS.Consumer(within(t), names.LogStream, names.ConsumerName("a")))(t)
		return c.CachedInfo().NumWaiting == 0
	})
	submit(t, s, "a")
	if offer := next(t, busy); offer.Deliveries != 1 {
		t.Errorf("the offer came with delivery %d, want 1: nobody else wanted it", offer.Deliveries)
	}
}

func TestDeletedConsumerIsMadeAgain(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{AckWait: time.Minute})
	o := offersOf(t, s, "a")
	got := make(chan *events.Offer, 1)
	go func() {
		offer, err := o.Next(within(t))
		if err != nil {
			t.Error(err)
		}
		got <- offer
	}()
	testkit.Eventually(t, "it waits", func() bool {
		return must(s.JS.Consumer(within(t), names.LogStream, names.ConsumerName("a")))(t).CachedInfo().NumWaiting > 0
	})
	if err := s.log.DeleteConsumer(within(t), names.ConsumerName("a")); err != nil {
		t.Fatal(err)
	}
	id := submit(t, s, "a")
	if offer := <-got; offer == nil || offer.Fact.Task != id {
		t.Fatalf("got %+v, want the offer of task %s", offer, id)
	}
	// The same without a waiter.
	if err := s.log.DeleteConsumer(within(t), names.ConsumerName("a")); err != nil {
		t.Fatal(err)
	}
	if offer := next(t, o); offer.Fact.Task != id { // a consumer made anew knows of no acknowledgement
		t.Fatalf("got the offer of task %s, want %s", offer.Fact.Task, id)
	}
}

func TestLeaseOnAGoneConnection(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	o := offersOf(t, s, "a")
	submit(t, s, "a")
	offer := next(t, o)
	if err := offer.Extend(within(t)); err != nil {
		t.Fatal(err)
	}
	s.NC.Close()
	if err := offer.Extend(within(t)); err == nil {
		t.Error("Extend on a closed connection reports success")
	}
	if err := offer.Ack(); err == nil {
		t.Error("Ack on a closed connection reports success")
	}
	if _, err := o.Next(canceled()); err == nil {
		t.Error("Next on a closed connection gave an offer")
	}
}

// However many queues a worker serves, the end of its offers waits for a server that does not answer
// about as long as for one queue.
func TestCloseWaitsOnceForAServer(t *testing.T) {
	t.Parallel()
	v := natstest.NewValve()
	s := openStore(t, connect(t, startServer(t, embed.Config{}).URL(), nats.SetCustomDialer(v)), streams.Layout{})
	queues := []string{"@n1"}
	for i := range 16 {
		queues = append(queues, fmt.Sprint("q", i))
	}
	o := must(s.Offers(within(t), queues))(t)
	v.Hold()
	began := time.Now()
	o.Close()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	v.Release()
}
