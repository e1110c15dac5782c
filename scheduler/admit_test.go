package scheduler

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"millrace/events"
	"millrace/events/logtest"
	"millrace/task"
)

// limitView is a read model in memory, which tells one scheduler what it was made of.
type limitView struct {
	log *events.Memory

	mu     sync.Mutex
	seq    uint64
	tasks  map[task.ID]task.Task
	grants map[task.ID]task.Grant
	queues map[string]task.Queue
	rates  map[string]time.Time
	moved  chan struct{}
}

func newLimitView(log *events.Memory) *limitView {
	return &limitView{log: log, tasks: map[task.ID]task.Task{}, grants: map[task.ID]task.Grant{}, queues: map[string]task.Queue{}, rates: map[string]time.Time{}, moved: make(chan struct{})}
}

// follow tells a scheduler of the log until ctx ends.
func (v *limitView) follow(ctx context.Context, s *Scheduler) {
	feed, _ := v.log.Follow(ctx, 1)
	for {
		records, err := feed.Next(ctx)
		if err != nil {
			return
		}
		v.mu.Lock()
		steps := make([]events.Step, len(records))
		for i := range records {
			r := &records[i]
			steps[i].Record = r
			if e, ok := r.Fact.Event.(task.Granted); ok {
				for _, g := range e.Grants {
					v.grants[g.Task] = g
				}
				maps.Copy(v.rates, e.Rates)
			}
			if e, ok := r.Fact.Event.(task.QueueEvent); ok {
				q := v.queues[r.Fact.Queue]
				q.Name = r.Fact.Queue
				v.queues[q.Name] = task.EvolveQueue(q, r.Seq, r.Fact.At, r.Fact.Actor, e)
			}
			if id := r.Fact.Task; id != "" {
				t, ok := v.tasks[id]
				if !ok {
					t.ID = id
				}
				steps[i].Was = events.GlanceAt(&t)
				t = task.Evolve(t, r.Task())
				v.tasks[id] = t
				steps[i].Task = &t
			}
			v.seq = r.Seq
		}
		close(v.moved)
		v.moved = make(chan struct{})
		v.mu.Unlock()
		s.Observe(steps)
	}
}

func (v *limitView) EachLimited(_ context.Context, each func(*task.Task, *task.Grant)) (map[string]time.Time, uint64, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(v.tasks)) {
		if t := v.tasks[id]; !t.State.Terminal() {
			each(&t, v.grant(id))
		}
	}
	return maps.Clone(v.rates), v.seq, nil
}

// grant is the latest admission of a task, nil if there is none.
func (v *limitView) grant(id task.ID) *task.Grant {
	if g, ok := v.grants[id]; ok {
		return &g
	}
	return nil
}

func (v *limitView) SaidOfQueues(context.Context) ([]task.Queue, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Collect(maps.Values(v.queues)), nil
}

func (v *limitView) ByID(_ context.Context, ids []task.ID) ([]task.Task, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	var found []task.Task
	for _, id := range ids {
		if t, ok := v.tasks[id]; ok {
			found = append(found, t)
		}
	}
	return found, nil
}

func (v *limitView) Wait(ctx context.Context, seq uint64) error {
	for {
		v.mu.Lock()
		reached, moved := v.seq, v.moved
		v.mu.Unlock()
		if reached >= seq {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// admitting starts a scheduler that only admits; stop ends it as a crash would.
func admitting(ctx context.Context, w *testWorld, log events.Log) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	v := newLimitView(w.Memory)
	s := New(log, w, nil, Config{Settings: settings, Limits: v})
	var wg sync.WaitGroup
	wg.Go(func() { v.follow(ctx, s) })
	wg.Go(func() { s.admitter.run(ctx, func(_, _ time.Time, _ error) {}) })
	return func() { cancel(); wg.Wait() }
}

func (w *testWorld) submitLimited(t *testing.T, n int, spec task.Spec) task.ID {
	t.Helper()
	spec.Handler = "h"
	e, err := task.Birth(task.Submission{Spec: &spec}, nil, 0, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	id := task.ID(fmt.Sprintf("01JNA0%020d", n))
	if _, err := w.rec.Submit(t.Context(), id, e); err != nil {
		t.Fatal(err)
	}
	return id
}

// runOne takes an offer, if there is one, and returns how to end it.
func (w *testWorld) runOne(t *testing.T, node string) (task.ID, func(task.Command)) {
	t.Helper()
	offers, _ := w.Offers(t.Context(), []string{"default"})
	o := offers.(*events.MemoryOffers).Try()
	if o == nil {
		return "", nil
	}
	now := w.task(t, o.Fact.Task)
	var after uint64
	if q, ok := o.Fact.Event.(task.Queued); ok {
		after = q.After
	}
	now, e, err := w.rec.Do(t.Context(), now, task.Claim{Node: node, Session: "s", Offer: o.Seq, After: after})
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
		w := newTestWorld()
		spec := task.Spec{Concurrency: task.Concurrencies{{Max: 2}}, Retry: task.Retry{Max: 1}}
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
		endSecond(task.Fail{Class: task.ReasonExit, Message: "broken"})
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
		w := newTestWorld()
		defer admitting(t.Context(), w, w.Memory)()
		one := func(n int, onLimit, key string) task.ID {
			id := w.submitLimited(t, n, task.Spec{Concurrency: task.Concurrencies{{Max: 1, Key: key, OnLimit: onLimit}}})
			time.Sleep(10 * time.Millisecond)
			return id
		}
		is := func(id task.ID, s task.State, reason string) {
			t.Helper()
			if got := w.task(t, id); got.State != s || got.Reason != reason {
				t.Errorf("task %s is %v (%s), want %v (%s)", id, got.State, got.Reason, s, reason)
			}
		}
		is(one(1, task.LimitSkip, "a"), task.Pending, "")
		is(one(2, task.LimitSkip, "a"), task.Cancelled, task.ReasonLimit)
		is(one(3, task.LimitFail, "b"), task.Pending, "")
		is(one(4, task.LimitFail, "b"), task.Abnormal, task.ReasonLimit)
		old := one(5, task.LimitCancelOld, "c")
		is(old, task.Pending, "")
		offers, _ := w.Offers(t.Context(), []string{"default"})
		for o := offers.(*events.MemoryOffers).Try(); o != nil; o = offers.(*events.MemoryOffers).Try() {
			now := w.task(t, o.Fact.Task)
			if _, _, err := w.rec.Do(t.Context(), now, task.Claim{Node: "n", Session: "s", Offer: o.Seq}); err != nil {
				t.Fatal(err)
			}
		}
		recent := one(6, task.LimitCancelOld, "c")
		is(old, task.Cancelling, task.ReasonUser)
		is(recent, task.Held, task.HoldLimit)
		now := w.task(t, old)
		if _, _, err := w.rec.Do(t.Context(), now, task.Stopped{Epoch: now.Epoch}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
		is(recent, task.Pending, "")
	})
}

// Several schedulers, of which each dies now and then, on a log that loses answers: no more
// than the limit ever hold an epoch, and all tasks come to their end.
func TestAdmissionSurvives(t *testing.T) {
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) { survive(t, seed) })
	}
}

func survive(t *testing.T, seed uint64) {
	w := newTestWorld()
	faulty := logtest.NewFaulty(w.Memory, seed, 0.2)
	stops := make([]func(), 3)
	for i := range stops {
		stops[i] = admitting(t.Context(), w, faulty)
	}
	const tasks, most = 40, 3
	for n := range tasks {
		w.submitLimited(t, n, task.Spec{Concurrency: task.Concurrencies{{Max: most, Key: "k"}}, Retry: task.Retry{Max: 3}})
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

// A task that asks for a pause gets it for all that stand under its rate, whoever decides then.
func TestAPauseIsForTheWholeRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld()
		stop := admitting(t.Context(), w, w.Memory)
		rate := task.Spec{Rate: task.Rates{{Limit: 1000, Burst: 10, Key: "api"}}}
		first := w.submitLimited(t, 1, rate)
		time.Sleep(10 * time.Millisecond)
		if id, end := w.runOne(t, "n"); id != first {
			t.Fatalf("%q started", id)
		} else {
			end(task.Fail{Class: task.ReasonNetwork, Message: "429", RetryAfter: time.Minute})
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
