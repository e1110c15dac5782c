package jet

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"millrace/task"
)

// timerError is by how much a timer may be late on an idle server.
const timerError = 500 * time.Millisecond

// starvation measures by how much the timers of this very process are late while a test
// runs: other processes may have the processors. What it returns gives the most so far.
func starvation(t *testing.T) (most func() time.Duration) {
	var worst atomic.Int64
	const step = 2 * time.Millisecond
	tick, done, ended := time.NewTicker(step), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for last := time.Now(); ; {
			select {
			case <-tick.C:
				now := time.Now()
				worst.Store(max(worst.Load(), int64(now.Sub(last)-step)))
				last = now
			case <-done:
				return
			}
		}
	}()
	t.Cleanup(func() {
		tick.Stop()
		close(done)
		<-ended
	})
	return func() time.Duration { return time.Duration(worst.Load()) }
}

func arm(t *testing.T, s *Store, id task.ID, turn uint64, due time.Time) {
	t.Helper()
	if err := s.Arm(within(t), newFact(id, task.Queued{Work: testWork("timed"), Attempt: 1, After: turn, Due: due})); err != nil {
		t.Fatal(err)
	}
}

func TestTimersAreNeverEarly(t *testing.T) {
	// Not in parallel with other tests: they would make the timers late. A timer comes by way of
	// some ten goroutines, of which each may have to wait for a processor.
	const hands = 10
	starved := starvation(t)
	for _, layout := range []Layout{{}, {SyncAlways: true}} {
		s := newStore(t, layout)
		o := offersOf(t, s, "timed")
		const timers = 50
		rng := rand.New(rand.NewPCG(5, 6))
		for range timers {
			due := time.Now().Add(200*time.Millisecond + time.Duration(rng.IntN(1_300_000))*time.Microsecond)
			arm(t, s, newTask(), 1, due)
		}
		var wg sync.WaitGroup
		for range timers {
			wg.Go(func() {
				offer, err := o.Next(within(t))
				if err != nil {
					t.Error(err)
					return
				}
				e := offer.Fact.Event.(task.Due)
				if late, bound := time.Since(e.Due), timerError+hands*starved(); late < 0 || late > bound {
					t.Errorf("a timer was %v late, want 0 to %v", late, bound)
				}
				if offer.Stored.Before(e.Due) {
					t.Errorf("a timer due at %v was fired at %v", e.Due, offer.Stored)
				}
				if err := offer.Ack(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
}

func TestTimersAreReplacedAndRemoved(t *testing.T) {
	t.Parallel()
	s := newStore(t, Layout{AckWait: time.Minute})
	o := offersOf(t, s, "timed")
	again, removed, overdue := newTask(), newTask(), newTask()
	start := time.Now()
	for i := range 5 {
		arm(t, s, again, uint64(i), start.Add(time.Duration(8-i)*400*time.Millisecond)) // the last one is the earliest
	}
	arm(t, s, again, 2, start) // of an earlier turn
	arm(t, s, removed, 1, start.Add(1200*time.Millisecond))
	for range 2 { // the second time there is none
		if err := s.Disarm(within(t), removed, 1<<40); err != nil {
			t.Fatal(err)
		}
	}
	arm(t, s, overdue, 1, start.Add(-time.Hour))
	arm(t, s, newTask(), 99, start.Add(3*time.Second))
	var got []uint64
	for len(got) == 0 || got[len(got)-1] != 99 {
		offer := next(t, o)
		got = append(got, offer.Fact.Event.(task.Due).After)
		if err := offer.Ack(); err != nil {
			t.Fatal(err)
		}
	}
	if want := "[1 4 99]"; fmt.Sprint(got) != want {
		t.Errorf("the timers of turns %v fired, want %s", got, want)
	}
	if records := must(s.Task(within(t), removed))(t); len(records) != 0 {
		t.Errorf("a removed timer left %d records", len(records))
	}
}

func TestArmAndPlaceRefuseWhatIsNoOffer(t *testing.T) {
	t.Parallel()
	s := newStore(t, Layout{})
	f := newFact(newTask(), note("x"))
	if err := s.Arm(within(t), f); err == nil {
		t.Error("Arm took what is no offer")
	}
	if _, err := s.Place(within(t), f); err == nil {
		t.Error("Place took what is no offer")
	}
	if last := must(s.Last(within(t)))(t); last != 0 {
		t.Errorf("the log has %d messages", last)
	}
}
