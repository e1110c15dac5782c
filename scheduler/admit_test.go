package scheduler

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"millrace/events"
	"millrace/events/logtest"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/quota"
	"millrace/task/value"
)

// admitting starts a scheduler that only admits; stop ends it like a crash.
func admitting(ctx context.Context, w *testWorld, log events.Log) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	v := newLimitView(w.Memory)
	s := New(log, w, nil, Config{Settings: settings, Limits: v})
	var wg sync.WaitGroup
	wg.Go(func() { v.follow(ctx, s) })
	wg.Go(func() { s.admitter.run(ctx, func(_, _ time.Time, _ error) {}) })
	return func() { cancel(); wg.Wait() }
}

func (w *testWorld) submitLimited(t *testing.T, n int, spec job.Spec) task.ID {
	t.Helper()
	spec.Handler = "h"
	e, err := birth.Of(birth.Submission{Spec: &spec}, nil, 0, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	id := task.ID(fmt.Sprintf("01JNA0%020d", n))
	if _, err := w.rec.Submit(t.Context(), id, e); err != nil {
		t.Fatal(err)
	}
	return id
}

// claimOf is a worker's claim for an offer.
func claimOf(o *events.Offer, node string) task.Claim {
	c := task.Claim{Node: node, Session: "s", Offer: o.Seq, Rate: o.Rate}
	switch e := o.Fact.Event.(type) {
	case task.Queued:
		c.After = e.After
	case task.Due:
		c.After, c.Reference = e.After, &e
	}
	return c
}

// runOne takes an offer, if there is one, starts its task and returns a function that ends it.
func (w *testWorld) runOne(t *testing.T, node string) (task.ID, func(task.Command)) {
	t.Helper()
	offers, _ := w.Offers(t.Context(), []string{"default"})
	o := offers.(*events.MemoryOffers).Try()
	if o == nil {
		return "", nil
	}
	now := w.task(t, o.Fact.Task)
	now, e, err := w.rec.Do(t.Context(), now, claimOf(o, node))
	_ = o.Ack()
	if _, started := e.(task.AttemptStarted); err != nil || !started {
		return w.runOne(t, node) // a second offer
	}
	return now.ID, func(c task.Command) {
		if f, ok := c.(task.Fail); ok {
			f.Epoch = now.Epoch
			c = f
		} else {
			c = task.Finish{Epoch: now.Epoch}
		}
		if _, _, err := w.rec.Do(t.Context(), now, c); err != nil {
			t.Error(err)
		}
	}
}

func TestAdmits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		spec := job.Spec{Concurrency: limit.Concurrencies{{Max: 2}}, Retry: job.Retry{Max: 1}}
		ids := []task.ID{w.submitLimited(t, 0, spec)}
		if got := w.task(t, ids[0]); got.State != task.Held || got.Reason != task.HoldLimit {
			t.Errorf("at first the task is %v (%s)", got.State, got.Reason)
		}
		defer admitting(t.Context(), w, w.Memory)()
		for n := range 4 {
			ids = append(ids, w.submitLimited(t, n+1, spec))
		}
		time.Sleep(10 * time.Millisecond)
		first, endFirst := w.runOne(t, "n")
		second, endSecond := w.runOne(t, "n")
		if first != ids[0] || second != ids[1] {
			t.Fatalf("%s and %s started", first, second)
		}
		if third, _ := w.runOne(t, "n"); third != "" {
			t.Fatalf("%s started, too", third)
		}
		endFirst(nil)
		endSecond(task.Fail{Class: value.Exit, Message: "broken"})
		time.Sleep(10 * time.Millisecond)
		if got := w.task(t, second); got.State != task.Retrying || len(got.Holds) != 1 {
			t.Errorf("the failed one is %v, held by %v", got.State, got.Holds)
		}
		third, endThird := w.runOne(t, "n")
		fourth, endFourth := w.runOne(t, "n")
		if third != ids[2] || fourth != ids[3] {
			t.Fatalf("then %s and %s started", third, fourth)
		}
		time.Sleep(2 * time.Second) // the retry is due, and older than the fifth
		endThird(nil)
		time.Sleep(10 * time.Millisecond)
		again, endAgain := w.runOne(t, "n")
		if again != second {
			t.Fatalf("then %s started, want the one that failed", again)
		}
		if got := w.task(t, again); got.Attempt != 2 {
			t.Errorf("its attempt is %d", got.Attempt)
		}
		endFourth(nil)
		endAgain(nil)
		time.Sleep(10 * time.Millisecond)
		if fifth, _ := w.runOne(t, "n"); fifth != ids[4] {
			t.Errorf("at last %s started", fifth)
		}
	})
}

func TestRefusesAndReplaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		defer admitting(t.Context(), w, w.Memory)()
		one := func(n int, onLimit, key string) task.ID {
			id := w.submitLimited(t, n, job.Spec{Concurrency: limit.Concurrencies{{Max: 1, Key: key, OnLimit: onLimit}}})
			time.Sleep(10 * time.Millisecond)
			return id
		}
		is := func(id task.ID, s task.State, reason string) {
			t.Helper()
			if got := w.task(t, id); got.State != s || got.Reason != reason {
				t.Errorf("task %s is %v (%s), want %v (%s)", id, got.State, got.Reason, s, reason)
			}
		}
		is(one(1, limit.Skip, "a"), task.Pending, "")
		is(one(2, limit.Skip, "a"), task.Cancelled, value.Limit)
		is(one(3, limit.Fail, "b"), task.Pending, "")
		is(one(4, limit.Fail, "b"), task.Abnormal, value.Limit)
		old := one(5, limit.CancelOld, "c")
		is(old, task.Pending, "")
		offers, _ := w.Offers(t.Context(), []string{"default"})
		for o := offers.(*events.MemoryOffers).Try(); o != nil; o = offers.(*events.MemoryOffers).Try() {
			now := w.task(t, o.Fact.Task)
			if _, _, err := w.rec.Do(t.Context(), now, task.Claim{Node: "n", Session: "s", Offer: o.Seq, After: now.Turn}); err != nil {
				t.Fatal(err)
			}
		}
		recent := one(6, limit.CancelOld, "c")
		is(old, task.Cancelling, value.User)
		is(recent, task.Held, task.HoldLimit)
		now := w.task(t, old)
		if _, _, err := w.rec.Do(t.Context(), now, task.Stopped{Epoch: now.Epoch}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
		is(recent, task.Pending, "")
	})
}

// Several schedulers, each of which dies now and then, run on a log that loses answers. Never more
// tasks than the limit hold an epoch, and all tasks end.
func TestAdmissionSurvives(t *testing.T) {
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) { survive(t, seed) })
	}
}

func survive(t *testing.T, seed uint64) {
	w := newTestWorld(t)
	faulty := logtest.NewFaulty(w.Memory, seed, 0.2)
	stops := make([]func(), 3)
	for i := range stops {
		stops[i] = admitting(t.Context(), w, faulty)
	}
	const tasks, most = 40, 3
	for n := range tasks {
		w.submitLimited(t, n, job.Spec{Concurrency: limit.Concurrencies{{Max: most, Key: "k"}}, Retry: job.Retry{Max: 3}})
	}
	var running []func(task.Command)
	done := 0
	for round := range 8000 {
		time.Sleep(20 * time.Millisecond)
		if id, end := w.runOne(t, "n"); id != "" {
			running = append(running, end)
		}
		if len(running) > most {
			t.Fatalf("seed %d: %d run at once", seed, len(running))
		}
		if len(running) > 0 && round%3 == 0 {
			running[0](nil)
			done++
			running = running[1:]
		}
		if round%60 == 59 { // each lives longer than an offer may be missing
			i := round / 60 % len(stops)
			stops[i]()
			stops[i] = admitting(t.Context(), w, faulty)
		}
		if done == tasks {
			break
		}
	}
	for _, stop := range stops {
		stop()
	}
	if done != tasks {
		t.Errorf("seed %d: %d of %d tasks came to their end", seed, done, tasks)
	}
}

// A delay that a task asks for applies to all tasks under its rate, whichever scheduler decides
// then.
func TestAPauseIsForTheWholeRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		stop := admitting(t.Context(), w, w.Memory)
		rate := job.Spec{Rate: limit.Rates{{Limit: 1000, Burst: 10, Key: "api"}}}
		first := w.submitLimited(t, 1, rate)
		time.Sleep(10 * time.Millisecond)
		if id, end := w.runOne(t, "n"); id != first {
			t.Fatalf("%q started", id)
		} else {
			end(task.Fail{Class: value.Network, Message: "429", RetryAfter: time.Minute})
		}
		time.Sleep(2 * time.Second)
		stop()
		defer admitting(t.Context(), w, w.Memory)()
		second := w.submitLimited(t, 2, rate)
		time.Sleep(50 * time.Second)
		if id, _ := w.runOne(t, "n"); id != "" {
			t.Fatalf("%s started within the pause", id)
		}
		time.Sleep(10 * time.Second)
		if id, _ := w.runOne(t, "n"); id != second {
			t.Errorf("after the pause %q started", id)
		}
	})
}

// stuck is a log in which the admissions of one scope block until released.
type stuck struct {
	events.Log
	scope limit.Scope
	let   chan struct{}
	mu    sync.Mutex
	sent  int // guarded by mu; admissions of any scope, including refused ones
	lost  int // guarded by mu; admissions that came too late
}

func (s *stuck) Append(ctx context.Context, f *events.Fact, last uint64) (uint64, error) {
	if f.Scope == "" {
		return s.Log.Append(ctx, f, last)
	}
	if f.Scope == s.scope {
		<-s.let
	}
	seq, err := s.Log.Append(ctx, f, last)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sent++; err != nil {
		s.lost++
	}
	return seq, err
}

// A scope whose admission is on its way delays no other scope.
func TestScopesDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		log := &stuck{Log: w.Memory, scope: limit.ScopeOf("key:/slow"), let: make(chan struct{})}
		defer admitting(t.Context(), w, log)()
		under := func(n int, key string) task.ID {
			return w.submitLimited(t, n, job.Spec{Concurrency: limit.Concurrencies{{Max: 1, Key: key}}})
		}
		slow := under(1, "/slow")
		time.Sleep(10 * time.Millisecond)
		for n := range 5 {
			quick := under(2+n, "/quick")
			time.Sleep(10 * time.Millisecond)
			id, end := w.runOne(t, "n")
			if id != quick {
				t.Fatalf("%q started while an admission of another scope is on its way", id)
			}
			end(nil)
			time.Sleep(10 * time.Millisecond)
		}
		close(log.let)
		time.Sleep(10 * time.Millisecond)
		if id, _ := w.runOne(t, "n"); id != slow {
			t.Errorf("then %q started", id)
		}
	})
}

// Two schedulers that see different tasks first do not conflict.
func TestSchedulersOfTwoScopesDoNotConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		log := &stuck{Log: w.Memory}
		one, other := limitedScheduler(w, log), limitedScheduler(w, log)
		for n := range 10 {
			for i, s := range []*seeing{one, other} {
				id := w.submitLimited(t, 10*n+i, job.Spec{Concurrency: limit.Concurrencies{{Max: 100, Key: fmt.Sprint("/", i)}}})
				s.see(t, id) // the other scheduler does not know of it yet
			}
			for _, s := range []*seeing{one, other} {
				if _, err := s.Admit(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		if log.sent != 20 || log.lost != 0 {
			t.Errorf("of %d admissions %d came too late, want 20 and none", log.sent, log.lost)
		}
	})
}

// seeing is a scheduler that sees only the facts shown to it.
type seeing struct {
	*Scheduler
	v *limitView
	w *testWorld
}

func limitedScheduler(w *testWorld, log events.Log) *seeing {
	v := newLimitView(w.Memory)
	return &seeing{New(log, w, nil, Config{Settings: settings, Limits: v}), v, w}
}

// see shows it a task.
func (s *seeing) see(t *testing.T, id task.ID) {
	records, err := s.w.Task(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	now := events.FoldTask(id, records)
	s.v.tasks[id] = now
	s.Observe([]events.Step{{Record: &records[len(records)-1], Task: &now}})
}

// raced is a log that calls before when the end of a task is about to be recorded.
type raced struct {
	events.Log
	before func()
}

func (l *raced) refuses(facts ...*events.Fact) {
	if b := l.before; b != nil && facts[0].Type == events.TaskAbnormal {
		l.before = nil
		b()
	}
}

func (l *raced) Append(ctx context.Context, f *events.Fact, last uint64) (uint64, error) {
	l.refuses(f)
	return l.Log.Append(ctx, f, last)
}

func (l *raced) AppendAll(ctx context.Context, facts []*events.Fact, last []uint64) (uint64, error) {
	l.refuses(facts...)
	return l.Log.AppendAll(ctx, facts, last)
}

// Of two schedulers one refuses a task and the other admits it. The first on the scope's chain
// decides, and the other learns of it, however far it lags behind.
func TestNobodyIsRefusedAndAdmitted(t *testing.T) {
	for name, refusesFirst := range map[string]bool{"refused first": true, "admitted first": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newTestWorld(t)
				log := &raced{Log: w.Memory}
				refuses, admits := limitedScheduler(w, log), limitedScheduler(w, w.Memory)
				admit := func(s *seeing) {
					if _, err := s.Admit(t.Context()); err != nil {
						t.Error(err)
					}
				}
				for _, s := range []*seeing{refuses, admits} {
					admit(s)
					s.v.seq = 1000 // so that it never waits: it knows what it is shown
				}
				spec := job.Spec{Concurrency: limit.Concurrencies{{Max: 1, Key: "/k", OnLimit: limit.Fail}}}
				before := w.submitLimited(t, 1, spec)
				admits.seeAll()
				admit(admits)
				contested := w.submitLimited(t, 2, spec)
				refuses.seeAll()
				if _, _, err := w.rec.Do(t.Context(), w.task(t, before), task.Cancel{}); err != nil {
					t.Fatal(err)
				}
				admits.seeAll() // the place is free, which only this scheduler knows
				want := task.Pending
				if log.before = func() { admit(admits) }; refusesFirst {
					want, log.before = task.Abnormal, nil
				}
				for range 3 {
					admit(refuses)
					admit(admits)
				}
				if got := w.task(t, contested); got.State != want {
					t.Errorf("it is %v (%s), want %v", got.State, got.Reason, want)
				}
				granted := 0
				for _, r := range w.All() {
					if e, ok := r.Fact.Event.(task.Granted); ok {
						granted += len(e.Grants)
					}
				}
				if wanted := map[bool]int{true: 1, false: 2}[refusesFirst]; granted != wanted {
					t.Errorf("%d were admitted, want %d", granted, wanted)
				}
			})
		})
	}
}

// seeAll shows it the whole log.
func (s *seeing) seeAll() {
	for _, r := range s.w.All()[s.admitter.observed.Load():] {
		step := events.Step{Record: &r}
		if id := r.Fact.Task; id != "" {
			now := task.Evolve(s.v.tasks[id], r.Task())
			now.ID = id
			s.v.tasks[id], step.Task = now, &now
		}
		s.Observe([]events.Step{step})
	}
}

// The state of a task comes with the first of its records in a batch, and is that after the last of
// them. A decision in between does not use it: it would not say that it knows so much.
func TestADecisionKnowsWholeBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		s := limitedScheduler(w, w.Memory)
		admit := func() (granted []events.Record) {
			if _, err := s.Admit(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, r := range w.All() {
				if r.Kind == events.KindLimit {
					granted = append(granted, r)
				}
			}
			return granted
		}
		admit()
		one := job.Spec{Concurrency: limit.Concurrencies{{Max: 1, Key: "/k"}}}
		holder, waits := w.submitLimited(t, 1, one), w.submitLimited(t, 2, one)
		s.seeAll()
		if got := admit(); len(got) != 1 {
			t.Fatalf("%d admissions, want one", len(got))
		}
		from := w.All()[len(w.All())-1].Seq
		if _, _, err := w.rec.Do(t.Context(), w.task(t, holder), task.Cancel{}); err != nil {
			t.Fatal(err)
		}
		ended := w.task(t, holder)
		var batch []events.Step
		for _, r := range w.All() {
			if r.Fact.Task == holder && r.Seq >= from {
				batch = append(batch, events.Step{Record: &r, Task: &ended})
			}
		}
		if len(batch) < 2 {
			t.Fatalf("%d records, want the offer and the end", len(batch))
		}
		told := 0
		s.cfg.Told = func() {
			told++
			if got := admit(); len(got) != 1 {
				t.Errorf("within the batch it admits by what was known at %d", got[1].Fact.By.Seen)
			}
		}
		s.Observe(batch)
		if told != len(batch) {
			t.Errorf("%d of %d records are told one by one", told, len(batch))
		}
		got := admit()
		if len(got) != 2 || got[1].Fact.Event.(task.Granted).Grants[0].Task != waits || got[1].Fact.By.Seen < batch[len(batch)-1].Record.Seq {
			t.Errorf("behind the batch it admits %+v", got)
		}
	})
}

// A delay that a task asked for is recorded once, by the first scheduler. A delay is not recorded
// again if its rate has been used since, or if it is over.
func TestAPauseIsRecordedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		both := []*seeing{limitedScheduler(w, w.Memory), limitedScheduler(w, w.Memory)}
		look := func(s *seeing) {
			s.seeAll()
			if _, err := s.Admit(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for _, s := range both {
			look(s)
			s.v.seq = 1000 // so that it never waits: it knows what it is shown
		}
		pauses := func() (n int) {
			for _, r := range w.All() {
				if e, ok := r.Fact.Event.(task.Granted); ok && len(e.Grants) == 0 {
					n++
				}
			}
			return n
		}
		spec := job.Spec{Rate: limit.Rates{{Limit: 1, Key: "/k"}}}
		for n, after := range []time.Duration{0, 2 * time.Minute} { // checked soon, and when it is over
			w.submitLimited(t, n, spec)
			look(both[0])
			_, end := w.runOne(t, "n")
			end(task.Fail{Class: value.Task, Final: true, RetryAfter: time.Minute})
			pass(after)
			for _, s := range append(both, both...) {
				look(s)
			}
			if pauses() != 1 {
				t.Errorf("%d pauses are recorded, want that of the first task", pauses())
			}
			pass(2 * time.Minute)
			for _, s := range append(both, both...) {
				look(s)
			}
			if pauses() != 1 {
				t.Errorf("when it is over %d pauses are recorded, want that of the first task", pauses())
			}
		}
	})
}

// After a message on a scope's chain that is not an admission, the next admission finds the head of
// the chain.
func TestGarbageOnAnAdmissionChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		defer admitting(t.Context(), w, w.Memory)()
		spec := job.Spec{Concurrency: limit.Concurrencies{{Max: 1, Key: "/k"}}}
		for n := range 3 {
			w.AppendRaw(events.Fact{Scope: limit.ScopeOf("key:/k")}, []byte("garbage"))
			id := w.submitLimited(t, n, spec)
			time.Sleep(2 * time.Second)
			started, end := w.runOne(t, "n")
			if started != id {
				t.Fatalf("%q started, want %s", started, id)
			}
			end(nil)
		}
	})
}

// far is a distant log: each write and read takes the time there, any number concurrently.
type far struct {
	events.Log
	there time.Duration
}

func (f far) Append(ctx context.Context, fact *events.Fact, last uint64) (uint64, error) {
	time.Sleep(f.there)
	return f.Log.Append(ctx, fact, last)
}

func (f far) AppendAll(ctx context.Context, facts []*events.Fact, last []uint64) (uint64, error) {
	time.Sleep(f.there)
	return f.Log.AppendAll(ctx, facts, last)
}

func (f far) PlaceAll(ctx context.Context, facts []*events.Fact, first bool, done func(i int, seq uint64, err error)) {
	time.Sleep(f.there)
	f.Log.PlaceAll(ctx, facts, first, done)
}

// admittedAfar is how long offering a backlog under some limits takes, at 4 ms per answer.
func admittedAfar(t *testing.T, limits, tasks int, both bool) (took time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		for n := range tasks {
			of := limit.Concurrencies{{Max: tasks, Key: fmt.Sprint("/", n%limits)}}
			if both {
				of = append(of, limit.Concurrency{Max: tasks, Key: "/both"})
			}
			w.submitLimited(t, n, job.Spec{Concurrency: of})
		}
		v := newLimitView(w.Memory)
		s := New(far{w.Memory, 4 * time.Millisecond}, w, nil, Config{Settings: settings, Limits: v})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { v.follow(ctx, s) })
		synctest.Wait()
		began := time.Now()
		wg.Go(func() { s.admitter.run(ctx, func(_, _ time.Time, _ error) {}) })
		offers, _ := w.Offers(t.Context(), []string{"default"})
		for n := 0; n < tasks; {
			if o := offers.(*events.MemoryOffers).Try(); o != nil {
				n++
				continue
			}
			time.Sleep(100 * time.Microsecond)
		}
		took = time.Since(began)
		cancel()
		wg.Wait()
	})
	return took
}

// Two busy limits without a common counter are admitted twice as fast as one, when the distance to
// the log dominates. With a common counter they are as fast as one.
func TestTwoBusyScopes(t *testing.T) {
	const tasks = 8 * quota.GrantsAtOnce
	one, two, four, tied := admittedAfar(t, 1, tasks, false), admittedAfar(t, 2, tasks, false), admittedAfar(t, 4, tasks, false), admittedAfar(t, 2, tasks, true)
	t.Logf("%d tasks are admitted in %v under one limit, %v under two, %v under four, %v under two and one for both", tasks, one, two, four, tied)
	if 19*one < 36*two || 19*two < 36*four {
		t.Errorf("one limit takes %v, two take %v, four %v", one, two, four)
	}
	if tied > one+one/5 {
		t.Errorf("two limits with one for both take %v, one takes %v", tied, one)
	}
}

// losing loses the first offers that are placed.
type losing struct {
	events.Log
	lost atomic.Bool
}

func (l *losing) PlaceAll(ctx context.Context, facts []*events.Fact, first bool, done func(i int, seq uint64, err error)) {
	if l.lost.Swap(true) {
		l.Log.PlaceAll(ctx, facts, first, done)
		return
	}
	for i := range facts {
		done(i, 0, events.ErrUnknown)
	}
}

// An admitted task gets one offer, however long the log takes to store it and the read model to
// know it.
func TestOneOfferOnABusyServer(t *testing.T) {
	t.Parallel()
	const busy = offerAgain + offerAgain/2
	for name, c := range map[string]struct {
		log  func(events.Log) events.Log
		late time.Duration
	}{
		"the read model is late":               {log: func(l events.Log) events.Log { return l }, late: busy},
		"the log is slow":                      {log: func(l events.Log) events.Log { return far{l, busy} }},
		"an offer was lost":                    {log: func(l events.Log) events.Log { return &losing{Log: l} }},
		"one was lost, and the model is late":  {log: func(l events.Log) events.Log { return &losing{Log: l} }, late: busy},
		"one was lost, and the log takes time": {log: func(l events.Log) events.Log { return far{&losing{Log: l}, busy} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newTestWorld(t)
				var ids []task.ID
				for n := range 8 {
					ids = append(ids, w.submitLimited(t, n, job.Spec{Concurrency: limit.Concurrencies{{Max: 4, Key: fmt.Sprint("/", n%2)}}}))
				}
				v := newLimitView(w.Memory)
				v.late = c.late
				s := New(c.log(w.Memory), w, nil, Config{Settings: settings, Limits: v, Last: w.Last})
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				wg.Go(func() { v.follow(ctx, s) })
				wg.Go(func() { s.admitter.run(ctx, func(_, _ time.Time, _ error) {}) })
				for n := range 10 { // each makes the scheduler look again
					time.Sleep(time.Second)
					ids = append(ids, w.submitLimited(t, 8+n, job.Spec{Concurrency: limit.Concurrencies{{Max: 1, Key: fmt.Sprint("/of ", n)}}}))
				}
				time.Sleep(10 * busy)
				cancel()
				wg.Wait()
				for _, id := range ids {
					if offers, _ := w.offersOf(t, id); offers != 1 {
						t.Errorf("task %s has %d offers, want one", id, offers)
					}
				}
			})
		})
	}
}
