package scheduler

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"millrace/events"
	"millrace/events/logtest"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/placement"
	"millrace/task/queue"
	"millrace/task/value"
)

// rate sets the rate of the queue; the zero value removes it.
func (w *testWorld) rate(t *testing.T, r limit.Rate) {
	t.Helper()
	if _, _, err := w.rec.DoQueue(t.Context(), placement.DefaultQueue, queue.Limit{Rate: &r}); err != nil {
		t.Fatal(err)
	}
}

// waiting submits tasks without limits of their own.
func (w *testWorld) waiting(t *testing.T, n int, retry job.Retry) {
	t.Helper()
	for i := range n {
		w.submitLimited(t, i, job.Spec{Retry: retry})
	}
}

// starts returns when attempts started, by the log.
func (w *testWorld) starts() (at []time.Time) {
	for _, r := range w.All() {
		if _, ok := r.Fact.Event.(task.AttemptStarted); ok {
			at = append(at, r.Fact.At)
		}
	}
	return at
}

// within checks the starts after a time against a rate in force since then.
func within(t *testing.T, starts []time.Time, since time.Time, r limit.Rate) {
	t.Helper()
	n := 0
	for _, at := range starts {
		if at.Before(since) {
			continue
		}
		if n++; n > max(r.Burst, 1)+int(at.Sub(since)/r.Every()) {
			t.Fatalf("%d have started within %v of %+v", n, at.Sub(since), r)
		}
	}
}

// work takes each available offer, like a worker; end then ends the attempt.
func (w *testWorld) work(t *testing.T, log events.Log, end func(task.Task) task.Command) {
	t.Helper()
	offers, _ := w.Offers(t.Context(), []string{placement.DefaultQueue})
	for o := offers.(*events.MemoryOffers).Try(); o != nil; o = offers.(*events.MemoryOffers).Try() {
		if w.attempt(t, log, o, end) {
			_ = o.Ack()
		}
	}
}

// attempt claims the task of an offer and ends the attempt, and tells whether the offer is
// finished.
func (w *testWorld) attempt(t *testing.T, log events.Log, o *events.Offer, end func(task.Task) task.Command) bool {
	rec := *w.rec
	rec.Log = log
	k, e, err := rec.Do(t.Context(), w.task(t, o.Fact.Task), claimOf(o, "n"))
	switch {
	case errors.Is(err, task.ErrStale), errors.Is(err, task.ErrEnded):
		return true
	case err != nil:
		return false
	}
	if _, started := e.(task.AttemptStarted); started {
		if k, _, err = rec.Do(t.Context(), k, end(k)); err != nil {
			return false
		}
	}
	return rec.Settle(t.Context(), &k) == nil
}

func finish(k task.Task) task.Command { return task.Finish{Epoch: k.Epoch} }

// A rate applies to tasks that waited before it was set, as long as it exists. A change applies at
// once, and waiting tasks go when the rate is removed.
func TestARateForWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		defer admitting(t.Context(), w, w.Memory)()
		w.waiting(t, 100, job.Retry{})
		work := func(d time.Duration) {
			for until := time.Now().Add(d); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
				w.work(t, w.Memory, finish)
			}
		}
		began, first := time.Now(), limit.Rate{Limit: 2, Burst: 3}
		w.rate(t, first)
		work(10 * time.Second)
		starts := w.starts()
		within(t, starts, began, first)
		if n := len(starts); n < 20 {
			t.Errorf("%d have started in 10 s", n)
		}
		before := len(starts)
		changed, second := time.Now(), limit.Rate{Limit: 10}
		w.rate(t, second)
		work(2 * time.Second)
		starts = w.starts()
		within(t, starts, changed, second)
		if n := len(starts) - before; n < 18 {
			t.Errorf("%d have started in 2 s of the second rate", n)
		}
		w.rate(t, limit.Rate{Limit: 1, Per: value.Duration(time.Hour)})
		before = len(starts)
		work(time.Minute)
		if n := len(w.starts()) - before; n != 1 {
			t.Errorf("%d have started in a minute of one in an hour", n)
		}
		w.rate(t, limit.Rate{})
		work(100 * time.Millisecond)
		if n := len(w.starts()); n != 100 {
			t.Errorf("%d of 100 have started when the rate was gone", n)
		}
	})
}

// Retries wait for the rate as well, and a delay that one asks for applies to the whole queue.
func TestARateForRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		stop := admitting(t.Context(), w, w.Memory)
		w.waiting(t, 4, job.Retry{Max: 5, MaxDelay: value.Duration(time.Minute)})
		rate := limit.Rate{Limit: 1}
		began := time.Now()
		w.rate(t, rate)
		for range 300 {
			w.work(t, w.Memory, func(k task.Task) task.Command {
				if k.Attempt < 3 {
					return task.Fail{Epoch: k.Epoch, Class: value.Exit}
				}
				return finish(k)
			})
			time.Sleep(100 * time.Millisecond)
		}
		starts := w.starts()
		within(t, starts, began, rate)
		if len(starts) != 12 {
			t.Errorf("%d attempts, want 3 of each of 4", len(starts))
		}
		last := w.submitLimited(t, 9, job.Spec{Retry: job.Retry{Max: 1, MaxDelay: value.Duration(time.Minute)}})
		next := w.submitLimited(t, 10, job.Spec{})
		for range 20 {
			w.work(t, w.Memory, func(k task.Task) task.Command {
				return task.Fail{Epoch: k.Epoch, Class: value.Network, RetryAfter: 30 * time.Second}
			})
			time.Sleep(100 * time.Millisecond)
		}
		stop()
		defer admitting(t.Context(), w, w.Memory)() // it learns of the delay from the log
		if k := w.task(t, next); w.task(t, last).Attempt != 1 || k.Attempt != 0 {
			t.Errorf("the next one started within the pause: %+v", k)
		}
		time.Sleep(31 * time.Second)
		w.work(t, w.Memory, finish)
		if k := w.task(t, next); k.State != task.Finished && w.task(t, last).State != task.Finished {
			t.Errorf("after the pause it is %s", k.State)
		}
	})
}

// Two schedulers that die now and then, workers that die between putting a task back and releasing
// its offer, a log that loses answers, and a changing rate: no more tasks start than the rate
// allows, and all do.
func TestARateSurvives(t *testing.T) {
	for seed := range uint64(6) {
		synctest.Test(t, func(t *testing.T) {
			w := newTestWorld(t)
			faulty := logtest.NewFaulty(w.Memory, seed, 0.2)
			stops := []func(){admitting(t.Context(), w, faulty), admitting(t.Context(), w, faulty)}
			const tasks = 60
			w.waiting(t, tasks, job.Retry{})
			rates := []limit.Rate{{Limit: 5, Burst: 3}, {Limit: 20}, {}, {Limit: 2}, {Limit: 50}}
			var at []time.Time
			offers, _ := w.Offers(t.Context(), []string{placement.DefaultQueue})
			for round := range 4000 {
				if round%400 == 0 && round/400 < len(rates) {
					at = append(at, time.Now())
					w.rate(t, rates[round/400])
				}
				if round%7 == 0 { // this worker dies before it releases the offer
					if o := offers.(*events.MemoryOffers).Try(); o != nil {
						w.attempt(t, w.Memory, o, finish)
					}
				}
				w.work(t, faulty, finish)
				if round%150 == 149 {
					i := round / 150 % 2
					stops[i]()
					stops[i] = admitting(t.Context(), w, faulty)
				}
				time.Sleep(10 * time.Millisecond)
			}
			for _, stop := range stops {
				stop()
			}
			starts := w.starts()
			if len(starts) != tasks {
				t.Errorf("seed %d: %d have started, want %d", seed, len(starts), tasks)
			}
			for i, r := range rates {
				if r.Limit == 0 {
					continue
				}
				end := time.Now()
				if i+1 < len(at) {
					end = at[i+1]
				}
				under := slices.DeleteFunc(slices.Clone(starts), func(s time.Time) bool { return !s.Before(end) })
				within(t, under, at[i], r)
			}
		})
	}
}
