package jet

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/events/jet/streams"
	"millrace/internal/testkit"
	"millrace/task"
)

// timerError is by how much a timer may be late on an idle server.
const timerError = 500 * time.Millisecond

func arm(t *testing.T, s *Store, id task.ID, turn uint64, due time.Time) {
	t.Helper()
	if err := s.Arm(within(t), newFact(id, task.Queued{Work: testWork("timed"), Attempt: 1, After: turn, Due: due})); err != nil {
		t.Fatal(err)
	}
}

func TestTimersAreNeverEarly(t *testing.T) {
	// Not in parallel with other tests: they would make the timers late. A timer passes through
	// some ten goroutines, each of which may have to wait for a processor.
	const hands = 10
	starved := testkit.Starvation(t)
	for _, layout := range []streams.Layout{{}, {SyncAlways: true}} {
		t.Run(fmt.Sprintf("sync always %t", layout.SyncAlways), func(t *testing.T) {
			t.Parallel() // with each other alone
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
		})
	}
}

func TestTimersAreReplacedAndRemoved(t *testing.T) {
	t.Parallel()
	var s *Store
	var o *offers
	var removed task.ID
	// On a busy machine a timer may have fired before it is replaced: then it is all done again,
	// with more time.
	for unit, inTime := 400*time.Millisecond, false; !inTime; unit *= 2 {
		s = newStore(t, streams.Layout{AckWait: time.Minute})
		o = offersOf(t, s, "timed")
		again, overdue, start := newTask(), newTask(), time.Now()
		removed = newTask()
		for i := range 5 {
			arm(t, s, again, uint64(i), start.Add(time.Duration(8-i)*unit)) // the last one is the earliest
		}
		arm(t, s, again, 2, start) // of an earlier turn
		arm(t, s, removed, 1, start.Add(3*unit))
		for range 2 { // the second time there is none
			if err := s.Disarm(within(t), removed, 1<<40); err != nil {
				t.Fatal(err)
			}
		}
		arm(t, s, overdue, 1, start.Add(-time.Hour))
		arm(t, s, newTask(), 99, start.Add(8*unit))
		inTime = time.Since(start) < 3*unit
	}
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
	s := newStore(t, streams.Layout{})
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

// A timer for a moment that the NATS server cannot count to does not fire.
func TestTimerBeyondTheServersTime(t *testing.T) {
	t.Parallel()
	for due, want := range map[string]string{
		"2026-03-01T12:00:00.123456789+01:00": "@at 2026-03-01T11:00:00.123456789Z",
		"2261-12-31T23:59:59Z":                "@at 2261-12-31T23:59:59Z",
		"9999-12-31T23:59:59Z":                "@at 2262-01-01T00:00:00Z",
	} {
		at, err := time.Parse(time.RFC3339Nano, due)
		if err != nil {
			t.Fatal(err)
		}
		if got := atTime(at); got != want {
			t.Errorf("what is due at %s gets the timer %q, want %q", due, got, want)
		}
		if fires, err := time.Parse(time.RFC3339Nano, strings.TrimPrefix(want, "@at ")); err != nil || fires.UnixNano() <= 0 {
			t.Errorf("%q is no time of the server: %v", want, err)
		}
	}
}
