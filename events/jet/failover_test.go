package jet

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"millrace/events"
	"millrace/events/jet/embed"
	"millrace/events/jet/names"
	"millrace/events/jet/streams"
	"millrace/internal/testkit"
	"millrace/task"
)

// The leader of the log changes again and again while tasks change hands.
func TestLeaderStepsDown(t *testing.T) {
	// Not in parallel with other tests: elections go by the clock.
	c := cluster(t)
	const account, tasks, turns, every = 1, 20, 10, 25
	// An answer can go down with the leader; a short wait keeps the test short.
	s := newImpatientStore(t, c.connect(t, account), time.Second, streams.Layout{Replicas: 3})
	r := recorder(s)
	var commands, changes atomic.Int64
	stepDown := func() {
		for _, ns := range c.Servers {
			if name := "A" + strconv.Itoa(account); ns.JetStreamIsStreamLeader(name, names.LogStream) && ns.JetStreamStepdownStream(name, names.LogStream) == nil {
				changes.Add(1)
			}
		}
	}
	r.NewID = func(time.Time) string { // each fact that is about to be recorded
		if commands.Add(1)%every == 0 {
			stepDown()
		}
		return newID()
	}
	var wg sync.WaitGroup
	made := make([]task.ID, tasks)
	for i := range made {
		made[i] = newTask()
		wg.Go(func() {
			if _, err := r.Submit(within(t), made[i], submittedNoop); err != nil {
				t.Error(err)
				return
			}
			changeHands(t, r, made[i], turns)
		})
	}
	wg.Wait()
	for _, id := range made {
		checkHands(t, s, id, turns)
	}
	if changes.Load() == 0 {
		t.Error("no leader stepped down")
	}
}

// The server goes away and comes back while everything is under way.
func TestServerRestarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	port := testkit.Port(t)
	srv := startServer(t, embed.Config{Dir: dir, Port: port})
	s := openStore(t, connect(t, srv.URL()), streams.Layout{AckWait: time.Minute})
	r := recorder(s)
	o, f := offersOf(t, s, "a", "b"), follow(t, s, 1)

	const tasks, turns = 12, 30
	var started, done atomic.Int64
	half := make(chan struct{})
	r.NewID = func(time.Time) string {
		if started.Add(1) == tasks*turns/2 {
			close(half)
		}
		return newID()
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	began := time.Now()
	var all sync.WaitGroup
	var mu sync.Mutex
	seen := map[task.ID]bool{}
	for range 4 {
		all.Go(func() {
			for {
				offer, err := o.Next(ctx)
				if err != nil {
					return
				}
				mu.Lock()
				seen[offer.Fact.Task] = true
				mu.Unlock()
				_ = offer.Ack() // if it is lost the offer comes again
			}
		})
	}
	var followed atomic.Uint64
	all.Go(func() {
		for {
			batch, err := f.Next(ctx)
			if err != nil {
				return
			}
			for i := range batch {
				if want := followed.Load() + 1; batch[i].Seq != want {
					t.Errorf("the feed gave record %d, want %d", batch[i].Seq, want)
				}
				followed.Store(batch[i].Seq)
			}
		}
	})
	var writers sync.WaitGroup
	made := make([]task.ID, tasks)
	for i := range made {
		made[i] = newTask()
		writers.Go(func() {
			birth := task.Submitted{Work: testWork([]string{"a", "b"}[i%2])}
			if _, err := r.Submit(ctx, made[i], birth); err != nil {
				t.Error(err)
				return
			}
			changeHands(t, r, made[i], turns)
			done.Add(1)
		})
	}
	<-half
	firstHalf := time.Since(began)
	stopServer(t, srv)
	startServer(t, embed.Config{Dir: dir, Port: port})
	back := time.Now()
	writers.Wait()
	if took := time.Since(back); took > 6*time.Second+2*firstHalf { // a starved machine takes its time for the second half, too
		t.Errorf("the writers took %v to come back and to write the second half, want a few seconds; the first half took %v", took, firstHalf)
	}
	late := newTask() // idle waiters are served, too
	if _, err := r.Submit(within(t), late, task.Submitted{Work: testWork("a")}); err != nil {
		t.Fatal(err)
	}
	last := must(s.Last(within(t)))(t)
	testkit.Eventually(t, "every offer was handed out and every record followed", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(seen) == tasks+1 && seen[late] && followed.Load() == last
	})
	for _, id := range made {
		checkHands(t, s, id, turns)
	}
	stop()
	all.Wait()
}

// A feed and waiters also survive a restart while nothing is written.
func TestServerRestartsWhileIdle(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	port := testkit.Port(t)
	srv := startServer(t, embed.Config{Dir: dir, Port: port})
	s := openStore(t, connect(t, srv.URL()), streams.Layout{AckWait: time.Minute})
	other := openStore(t, connect(t, srv.URL()), streams.Layout{})
	o, f := offersOf(t, s, "a"), follow(t, s, 1)
	first := submit(t, s, "a")
	held := next(t, o)
	read(t, f, 1, 1)
	got := make(chan *events.Offer, 1)
	go func() {
		offer, err := o.Next(within(t))
		if err != nil {
			t.Error(err)
		}
		got <- offer
	}()
	stopServer(t, srv)
	startServer(t, embed.Config{Dir: dir, Port: port})
	back := time.Now()
	if err := held.Extend(within(t)); err != nil { // the lease is kept
		t.Errorf("Extend after the restart: %v", err)
	}
	id := submit(t, other, "a")
	if offer := <-got; offer == nil || offer.Fact.Task != id {
		t.Fatalf("got %+v, want the offer of %s, for that of %s is leased", offer, id, first)
	}
	read(t, f, 2, must(s.Last(within(t)))(t))
	if took := time.Since(back); took > 6*time.Second {
		t.Errorf("it took %v until all went on, want a few seconds", took)
	}
}
