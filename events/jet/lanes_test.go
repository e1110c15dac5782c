package jet

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	"millrace/events/jet/embed"
	"millrace/events/jet/names"
	"millrace/events/jet/natstest"
	"millrace/events/jet/pubsub"
	"millrace/events/jet/request"
	"millrace/events/jet/streams"
	"millrace/internal/testkit"
	"millrace/task"
	"millrace/task/placement"
	"millrace/task/queue"
)

// submitTo places the birth of a task with a priority and a fair key.
func submitTo(t testing.TB, s *Store, queue string, priority int, key string) task.ID {
	t.Helper()
	id := newTask()
	work := testWork(queue)
	work.Route, work.FairKey = placement.QueueRoute(queue, priority), key
	if _, err := s.Place(within(t), newFact(id, task.Submitted{Work: work})); err != nil {
		t.Fatal(err)
	}
	return id
}

// takeAll takes n offers one after the other, as one slot does, and returns their lanes.
func takeAll(t testing.TB, o events.Offers, n int) []placement.Lane {
	t.Helper()
	var took []placement.Lane
	for range n {
		offer, err := o.Next(within(t))
		if err != nil {
			t.Fatal(err)
		}
		if offer.Deliveries > freeReturns {
			t.Errorf("an offer was handed out %d times", offer.Deliveries)
		}
		if err := offer.Ack(); err != nil {
			t.Fatal(err)
		}
		switch e := offer.Fact.Event.(type) {
		case task.Submitted:
			took = append(took, e.Lane())
		case task.Queued:
			took = append(took, e.Lane())
		case task.Due: // which lies in its lane and does not name it
			l := placement.Lane{Queue: e.Route.Queue(), Priority: e.Route.Priority()}
			for l.Number < placement.Lanes && offerAt(l, offer.Fact.Task) != offer.Place {
				l.Number++
			}
			took = append(took, l)
		}
	}
	return took
}

// counted waits until the server counts n offers that wait in a lane. It counts a message a moment
// after it has confirmed it, and until then answers that the lane is empty.
func counted(t testing.TB, s *Store, l placement.Lane, n int) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("%d offers wait in %v", n, l), func() bool {
		return slices.ContainsFunc(must(s.QueueState(within(t), l.Queue))(t), func(is LaneState) bool { return is.Lane == l && is.Waiting == n })
	})
}

func offerAt(l placement.Lane, id task.ID) string {
	if names.Special(l) {
		return names.LanePrefix(l) + string(id)
	}
	return names.QueuePrefix + string(placement.QueueRoute(l.Queue, l.Priority)) + "." + string(id)
}

func TestNamesOfLanes(t *testing.T) {
	t.Parallel()
	for want, l := range map[string]placement.Lane{
		"lane_08_00_crawl": {Queue: "crawl", Priority: 8}, "lane_10_16_a_05_03_b": {Queue: "a_05_03_b", Priority: 10, Number: 16},
		"lane_05_01_x": {Queue: "x", Priority: 5, Number: 1}, "lane_09_00_~0123": {Queue: "~0123", Priority: 9}, "queue_crawl": {Queue: "crawl", Priority: 5},
	} {
		if got := names.LaneConsumer(l); got != want {
			t.Errorf("the consumer of %+v is %s, want %s", l, got, want)
		}
	}
	w := task.Work{Route: "crawl.5"}
	if got, want := names.OfferSubject(&w, "T"), "mr.queue.crawl.5.T"; got != want {
		t.Errorf("the plain lane is at %s, want %s", got, want)
	}
	w.Route = "crawl.8"
	if got, want := names.OfferSubject(&w, "T"), "mr.queue.crawl~0.8.T"; got != want {
		t.Errorf("priority 8 is at %s, want %s", got, want)
	}
	w.Route = "~0123.8"
	if got, want := names.OfferSubject(&w, "T"), "mr.queue.~0123~0.8.T"; got != want {
		t.Errorf("a selector's priority 8 is at %s, want %s", got, want)
	}
	w.Route = "@n1.8"
	if got, want := names.OfferSubject(&w, "T"), "mr.queue.@n1.8.T"; got != want {
		t.Errorf("priority 8 of a node's route is at %s, want %s", got, want)
	}
	w.Route = "@n1.5"
	if got, want := names.OfferSubject(&w, "T"), "mr.queue.@n1.5.T"; got != want {
		t.Errorf("a node's route is at %s, want %s", got, want)
	}
}

func TestTheMoreUrgentFirst(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{AckWait: time.Minute})
	for range 30 {
		for _, p := range []int{1, 5, 9} {
			submitTo(t, s, "a", p, "")
		}
	}
	o := offersOf(t, s, "a", "@n1")
	took := takeAll(t, o, 90)
	first := map[int]int{}
	for _, l := range took[:20] {
		first[l.Priority]++
	}
	if first[9] != 18 || first[5] != 1 || first[1] != 1 {
		t.Errorf("of the first 20 so many were of each priority: %v; want 18 of 9 and 1 of each other", first)
	}
	settled(t, o)

	// An urgent offer that comes while others run goes before those that wait.
	for range 20 {
		submitTo(t, s, "a", 5, "")
	}
	takeAll(t, o, 5)
	testkit.Eventually(t, "all lanes may be looked at again", func() bool { // else it may have been looked for a moment ago
		o.mu.Lock()
		defer o.mu.Unlock()
		return !slices.ContainsFunc(o.sources, func(s *source) bool { return s.again.After(time.Now()) })
	})
	submitTo(t, s, "a", 10, "") // a lane that did not exist before
	testkit.Eventually(t, "the lane was found", func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return slices.ContainsFunc(o.sources, func(s *source) bool { return s.lane.Priority == 10 })
	})
	// The consumer learns of it a moment after the log has stored it.
	testkit.Eventually(t, "its consumer knows of the offer", func() bool {
		c, err := s.JS.Consumer(within(t), names.LogStream, names.LaneConsumer(placement.Lane{Queue: "a", Priority: 10}))
		return err == nil && c.CachedInfo().NumPending == 1
	})
	if l := takeAll(t, o, 1)[0]; l.Priority != 10 {
		t.Errorf("priority %d came before 10", l.Priority)
	}
}

func TestOneKeyDoesNotDelayAnother(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{AckWait: time.Minute})
	const many, few = 400, 5
	big, small := "tenant-1", "tenant-2"
	lane := func(key string) int { return (&task.Work{FairKey: key}).Lane().Number }
	for lane(small) == lane(big) {
		small += "x"
	}
	for range many {
		submitTo(t, s, "a", 5, big)
	}
	for range few {
		submitTo(t, s, "a", 5, small)
	}
	o := offersOf(t, s, "a")
	took := takeAll(t, o, 2*few+1)
	n := 0
	for _, l := range took {
		if l.Number == lane(small) {
			n++
		}
	}
	if n != few {
		t.Errorf("of the first %d tasks %d were of the key with few, want all %d: %v", len(took), n, few, took)
	}
}

func TestWeightedQueues(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{AckWait: time.Minute})
	for range 60 {
		submit(t, s, "crawl")
		submit(t, s, "default")
	}
	o := offersOf(t, s, "crawl", "default")
	o.Weigh(map[string]int{"crawl": 3})
	count := map[string]int{}
	for _, l := range takeAll(t, o, 40) {
		count[l.Queue]++
	}
	if count["crawl"] != 30 {
		t.Errorf("of 40 tasks with the weights 3 and 1 so many were of each queue: %v", count)
	}
}

// Many slots on several workers take everything, each task once, and hardly anything is handed
// out in vain: that would use up an offer's deliveries.
// Behind a slow link an answer takes longer than an empty lane is left alone.
func TestEmptyLanesBehindASlowLink(t *testing.T) {
	t.Parallel()
	srv := startServer(t, embed.Config{})
	s := openStore(t, connect(t, srv.URL()), streams.Layout{})
	var lag natstest.Lag
	slow := openStore(t, connect(t, srv.URL(), nats.SetCustomDialer(&lag)), streams.Layout{AckWait: time.Minute})
	o := offersOf(t, slow, "a", "b")
	for _, priority := range []int{placement.MinPriority, placement.DefaultPriority, placement.MaxPriority} {
		submitTo(t, s, "a", priority, "")
	}
	takeAll(t, o, 3) // from now on these lanes are empty
	lag.By(150 * time.Millisecond)
	for range 3 {
		submitTo(t, s, "b", placement.DefaultPriority, "")
		if lanes := takeAll(t, o, 1); lanes[0].Queue != "b" {
			t.Errorf("took from %v", lanes)
		}
	}
}

func TestManySlotsAndLanes(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{AckWait: time.Minute})
	workers := []*offers{offersOf(t, s, "a", "b"), offersOf(t, s, "a", "b"), offersOf(t, s, "a", "b")}
	takenOnce(t, workers, 600, func(i int) {
		submitTo(t, s, []string{"a", "b"}[i%2], 1+i%10, []string{"", fmt.Sprint(i % 7)}[i%3%2])
	})
}

// takenOnce places tasks, and looks that eight slots of each worker take each of them once, with
// hardly any delivery in vain.
func takenOnce(t *testing.T, workers []*offers, tasks int, place func(i int)) {
	t.Helper()
	const slots = 8
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	seen, deliveries := map[uint64]int{}, 0
	var wg sync.WaitGroup
	for _, o := range workers {
		for range slots {
			wg.Go(func() {
				for {
					offer, err := o.Next(ctx)
					if err != nil {
						return
					}
					mu.Lock()
					seen[offer.Seq]++
					deliveries += offer.Deliveries
					mu.Unlock()
					if err := offer.Ack(); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	for i := range tasks {
		place(i)
	}
	testkit.Eventually(t, "all were taken", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(seen) == tasks
	})
	cancel()
	wg.Wait()
	for seq, n := range seen {
		if n != 1 {
			t.Errorf("offer %d was handed out to %d slots", seq, n)
		}
	}
	if deliveries > tasks*3/2 {
		t.Errorf("%d tasks took %d deliveries", tasks, deliveries)
	}
}

// An earlier version's consumer continues, with its leases, beside the new ones.
func TestConsumerOfAnEarlierVersionStays(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{AckWait: time.Minute})
	must(s.log.CreateConsumer(within(t), jetstream.ConsumerConfig{
		Durable: "queue_a", FilterSubject: "mr.queue.a.*.*", AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Minute,
		MaxDeliver: maxDeliver, MaxAckPending: -1, MaxWaiting: 8192,
	}))(t)
	// An offer that such a version placed at another priority lies among the others.
	work := testWork("a")
	work.Route = "a.8"
	old := newTask()
	body := must(events.Encode(nil, newFact(old, task.Submitted{Work: work})))(t)
	raw(t, s, "mr.queue.a.8."+string(old), nil, body)
	plain := submit(t, s, "a")

	earlier := must(s.JS.Consumer(within(t), names.LogStream, "queue_a"))(t)
	leased := must(earlier.Next())(t)
	urgent := submitTo(t, s, "a", 8, "")
	counted(t, s, placement.Lane{Queue: "a", Priority: 8}, 1)
	o := offersOf(t, s, "a")
	got := []task.ID{next(t, o).Fact.Task, next(t, o).Fact.Task}
	if !slices.Equal(got, []task.ID{urgent, plain}) {
		t.Errorf("got %v, want the urgent one %s and then %s", got, urgent, plain)
	}
	if n := ackPending(t, s, "a"); n != 2 {
		t.Errorf("%d offers of the common consumer are out, want 2: the earlier version's and ours", n)
	}
	if err := leased.DoubleAck(within(t)); err != nil {
		t.Fatal(err)
	}
	records := must(s.Task(within(t), urgent))(t)
	if len(records) != 1 || records[0].Fact.Task != urgent {
		t.Errorf("the history of a task in a special lane is %v", records)
	}
}

// A waiter that waits while a queue is paused gets an offer as soon as the queue is resumed, and
// not only at its next request.
func TestResumedForThoseWhoWait(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{AckWait: time.Minute})
	rec := recorder(s)
	o := offersOf(t, s, "a")
	done(t, o, submit(t, s, "a"))
	get := awaits(t, o)
	say := func(c queue.Command) {
		t.Helper()
		if _, _, err := rec.DoQueue(within(t), "a", c); err != nil {
			t.Fatal(err)
		}
		if err := s.KeepQueue(within(t), "a"); err != nil {
			t.Fatal(err)
		}
	}
	say(queue.PauseFor{Reason: "closed"})
	id := submit(t, s, "a")
	testkit.Eventually(t, "the server knows who waits", func() bool {
		c := must(s.JS.Consumer(within(t), names.LogStream, "queue_a"))(t)
		return c.CachedInfo().NumWaiting > 0
	})
	say(queue.Resume{})
	began := time.Now()
	if got := get(); got != id {
		t.Errorf("got an offer of %s, want %s", got, id)
	}
	if took := time.Since(began); took > pubsub.WorkerPace.Expires/2 {
		t.Errorf("it came %v after the queue was resumed, and requests last for %v", took, pubsub.WorkerPace.Expires)
	}
}

// Two that resume a queue at the same time do not put off when it opens.
func TestResumedByTwo(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	rec := recorder(s)
	submit(t, s, "a")
	offersOf(t, s, "a")
	for _, c := range []queue.Command{queue.PauseFor{}, queue.Resume{}} {
		if _, _, err := rec.DoQueue(within(t), "a", c); err != nil {
			t.Fatal(err)
		}
		if _, paused := c.(queue.PauseFor); !paused {
			break
		}
		if err := s.KeepQueue(within(t), "a"); err != nil {
			t.Fatal(err)
		}
	}
	q := must(s.queue(within(t), "a"))(t)
	name := names.LaneConsumer(placement.Lane{Queue: "a", Priority: placement.DefaultPriority})
	keep := func() (until time.Time) {
		t.Helper()
		opens := must(s.keepLane(within(t), must(s.JS.Consumer(within(t), names.LogStream, name))(t).CachedInfo(), &q))(t)
		is := must(s.JS.Consumer(within(t), names.LogStream, name))(t).CachedInfo()
		if is.Paused && is.PauseRemaining > opens {
			t.Errorf("it opens in %v, not in %v", is.PauseRemaining, opens)
		}
		return *is.Config.PauseUntil
	}
	if first, second := keep(), keep(); !first.Equal(second) {
		t.Errorf("one says %v, and the next %v", first, second)
	}
}

// A pause and a limit hold on the server itself, for every client, and for consumers that are made
// later.
func TestPauseAndLimitHoldOnTheConsumers(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{AckWait: time.Minute})
	rec := recorder(s)
	say := func(c queue.Command) {
		t.Helper()
		if _, _, err := rec.DoQueue(within(t), "a", c); err != nil {
			t.Fatal(err)
		}
		if err := s.KeepQueue(within(t), "a"); err != nil {
			t.Fatal(err)
		}
	}
	o := offersOf(t, s, "a", "b")
	say(queue.PauseFor{Reason: "closed"})
	submit(t, s, "a")
	submitTo(t, s, "a", 9, "") // the consumer of this lane is made now
	other := submit(t, s, "b")
	if got := next(t, o); got.Fact.Task != other {
		t.Fatalf("an offer of a paused queue came: %+v", got.Fact)
	}
	for _, l := range must(s.QueueState(within(t), "a"))(t) {
		if l.Leased != 0 || l.Waiting != 1 {
			t.Errorf("of a paused queue: %+v", l)
		}
	}
	kind := selectorWork(t, "zone=eu")
	kind.Spec.Place.Queue, kind.Route = "a", placement.SelectorRoute("a", kind.Spec.Needs(), 7)
	born(t, s, kind) // is for nodes of a kind that serve the queue
	if err := o.Also(within(t), []string{kind.Route.Queue()}); err != nil {
		t.Fatal(err)
	}
	plain := placement.Lane{Queue: "a", Priority: placement.DefaultPriority}
	if until, consumer, err := s.LanePaused(within(t), plain); err != nil || until.Before(s.Now()) || consumer != names.LogStream+" queue_a" {
		t.Errorf("of a paused queue: %v, %q, %v", until, consumer, err)
	}
	for _, l := range must(s.QueueState(within(t), "a"))(t) {
		if c := must(s.JS.Consumer(within(t), names.LogStream, names.LaneConsumer(l.Lane)))(t); !c.CachedInfo().Paused {
			t.Errorf("of a paused queue %+v is not", l)
		}
	}
	say(queue.Resume{})
	for _, open := range []placement.Lane{plain, {Queue: "nobody", Priority: 1}} {
		if until, _, err := s.LanePaused(within(t), open); err != nil || !until.IsZero() {
			t.Errorf("of %+v: %v, %v", open, until, err)
		}
	}
	if l := takeAll(t, o, 3); l[0].Priority+l[1].Priority+l[2].Priority != 21 {
		t.Errorf("after it was resumed, these came: %v", l)
	}

	two := 2
	say(queue.Limit{Running: &two})
	for range 5 {
		submitTo(t, s, "a", 3, "")
	}
	first, second := next(t, o), next(t, o)
	ctx, cancel := context.WithTimeout(within(t), 2*pubsub.Silence)
	defer cancel()
	if third, err := o.Next(ctx); err == nil {
		t.Fatalf("a third one came: %+v", third.Fact)
	}
	if err := first.Ack(); err != nil {
		t.Fatal(err)
	}
	if third := next(t, o); third.Fact.Task == second.Fact.Task {
		t.Error("the same one came twice")
	}
	none := 0
	say(queue.Limit{Running: &none})
	takeAll(t, o, 2)
}

// A limit holds for all lanes of a queue together, however many workers take from them, and urgent
// offers still go first.
func TestALimitHoldsForAllLanes(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{AckWait: time.Minute})
	keepsLimit(t, s, "a", func(i int) { submitTo(t, s, "a", []int{5, 8, 2}[i%3], "") }, func(int) events.Offers { return offersOf(t, s, "a", "b") })
}

// The limit also holds for offers of selectors, and for workers of which none matches all
// selectors.
func TestALimitHoldsForSelectors(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{AckWait: time.Minute})
	zones := []task.Submitted{selectorWork(t, "zone=eu"), selectorWork(t, "zone=us"), selectorWork(t, "zone=ap")}
	keepsLimit(t, s, "default", func(i int) {
		if i%2 == 0 {
			submitTo(t, s, "default", 5, "")
			return
		}
		e := zones[i%3]
		e.Route = e.Route.At([]int{5, 9}[i/6%2])
		born(t, s, e)
	}, func(worker int) events.Offers {
		o := offersOf(t, s, "default")
		if err := o.Also(within(t), []string{zones[worker].Route.Queue()}); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, "its limit is known", func() bool {
			o.mu.Lock()
			defer o.mu.Unlock()
			return len(o.sources) == 3 && o.limits["default"] != nil && o.limits["default"].several
		})
		return o
	})
}

// keepsLimit has tasks of a queue run on three workers and looks that its limit holds.
func keepsLimit(t *testing.T, s *Store, name string, place func(i int), serve func(worker int) events.Offers) {
	rec := recorder(s)
	const limit, workers, slots, tasks = 3, 3, 4, 40
	n := limit
	if _, _, err := rec.DoQueue(within(t), name, queue.Limit{Running: &n}); err != nil {
		t.Fatal(err)
	}
	for i := range tasks {
		place(i)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	running, most, done := 0, 0, map[task.ID]int{}
	var wg sync.WaitGroup
	var all []events.Offers
	for worker := range workers {
		all = append(all, serve(worker))
	}
	for _, o := range all {
		for range slots {
			wg.Go(func() {
				for {
					offer, err := o.Next(ctx)
					if err != nil {
						return
					}
					mu.Lock()
					running++
					most = max(most, running)
					done[offer.Fact.Task]++
					mu.Unlock()
					<-time.After(5 * time.Millisecond)
					mu.Lock()
					running--
					mu.Unlock()
					if offer.Deliveries > maxDeliver/2 {
						t.Errorf("an offer was handed out %d times", offer.Deliveries)
					}
					if err := offer.Ack(); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	testkit.Eventually(t, "all have run", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(done) == tasks && running == 0
	})
	cancel()
	wg.Wait()
	if most > limit {
		t.Errorf("%d ran at once, and at most %d may", most, limit)
	}
	for id, n := range done {
		if n != 1 {
			t.Errorf("task %s ran %d times", id, n)
		}
	}
}

// The states of many queues cost one reading of the selectors, not one for each queue, and are what
// each queue's own is.
func TestStatesOfManyQueues(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	queues := []string{placement.DefaultQueue, "nobody"}
	for i := range 20 {
		name := fmt.Sprintf("q%d", i)
		queues = append(queues, name)
		submit(t, s, name)
		submitTo(t, s, name, 8, "")
	}
	kind := selectorWork(t, "zone=eu")
	kind.Spec.Place.Queue, kind.Route = "q7", placement.SelectorRoute("q7", kind.Spec.Needs(), 7)
	born(t, s, kind)
	o := offersOf(t, s, "q7")
	if err := o.Also(within(t), []string{kind.Route.Queue()}); err != nil {
		t.Fatal(err)
	}
	for range 3 { // then each lane has its consumer
		if err := next(t, o).Ack(); err != nil {
			t.Fatal(err)
		}
	}
	// Else their leases end between the two looks, and they are handed out once more.
	testkit.Eventually(t, "nothing is leased", func() bool {
		return !slices.ContainsFunc(must(s.QueueState(within(t), "q7"))(t), func(of LaneState) bool { return of.Leased > 0 })
	})

	asked := must(s.NC.SubscribeSync(names.APIDirect + names.StateStream))(t)
	if err := s.NC.FlushWithContext(within(t)); err != nil {
		t.Fatal(err)
	}
	var states map[string][]LaneState
	declarations := 0
	for took := request.ReadTry; took >= request.ReadTry; { // a request without an answer for so long is sent again
		began := time.Now()
		states, declarations = must(s.QueueStates(within(t), queues...))(t), 0
		took = time.Since(began)
		for {
			m, err := asked.NextMsg(0)
			if err != nil {
				break
			}
			if strings.Contains(string(m.Data), names.SelectorPrefix) {
				declarations++
			}
		}
	}
	if declarations != 1 {
		t.Errorf("the selectors were read %d times for %d queues", declarations, len(queues))
	}
	for _, name := range queues {
		if one := must(s.QueueState(within(t), name))(t); !reflect.DeepEqual(states[name], one) {
			t.Errorf("of %s: %+v among others, %+v alone", name, states[name], one)
		}
	}
	if of := states["q7"]; len(of) != 4 || states["nobody"] != nil {
		t.Errorf("of the queue with a selector among its nodes: %+v; of one without a task: %+v", of, states["nobody"])
	}
}
