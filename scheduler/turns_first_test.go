package scheduler

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/schedule"
	"millrace/task/value"
)

// If a scheduler has admitted tasks and not offered them, exactly one other scheduler offers them.
func TestOneOffersWhatWasAdmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCrowd(t, 3, &peers{})
		w.log.setMute(true)
		var ids []task.ID
		for n := range 30 {
			ids = append(ids, w.submitLimited(t, n, job.Spec{Concurrency: limit.Concurrencies{{Max: 10, Key: fmt.Sprint("/", n%3)}}}))
		}
		pass(time.Second)
		w.log.setMute(false)
		pass(offerAgain + 2*Patience)
		for _, id := range ids {
			if offers, _ := w.offersOf(t, id); offers != 1 {
				t.Errorf("task %s has %d offers, want one", id, offers)
			}
		}
	})
}

// Of three schedulers one handles an undecided tick, and the others only after it.
func TestTicksAreSeenToInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		due := time.Now()
		waits := map[time.Duration]int{}
		for _, name := range []string{"one", "two", "three"} {
			of := NewPrecedence(name)
			of.Join(true)
			w := newTickWatch(time.Now, of)
			w.due.Push(&watchedTick{schedule: "s", tick: schedule.Tick{At: due, Due: due}, at: due.Add(tickPatience)})
			for now := due; ; now = now.Add(tickLook) {
				for _, other := range []string{"one", "two", "three"} {
					of.Hear(other, true)
				}
				if len(w.late(now)) > 0 {
					waits[now.Sub(due)]++
					break
				}
			}
		}
		for n := range 3 {
			if at := tickPatience + time.Duration(n)*Patience; waits[at] != 1 {
				t.Errorf("%d see to it after %v, want one: %v", waits[at], at, waits)
			}
		}
	})
}

// Every scheduler hears of a dead offer. One handles it, and the others make no request.
func TestOneBuriesAnOffer(t *testing.T) {
	for killed := range 3 {
		synctest.Test(t, func(t *testing.T) {
			w := newTestWorld(t)
			w.join(t, "n1")
			met := &peers{}
			var heard []func(uint64)
			var asked []*buried
			var stops []func()
			for i := range 3 {
				d := &buried{deliveries: deliveries{testWorld: w, heard: make(chan func(uint64), 1)}}
				s := New(w.Memory, w, w, Config{Settings: settings, Deliveries: d, Peers: met, Last: w.Last})
				s.turns.Name = fmt.Sprint("scheduler-", i)
				ctx, stop := context.WithCancel(t.Context())
				go func() { _ = s.Run(ctx) }() // it returns nil
				w.tell(t, s)
				heard, asked, stops = append(heard, <-d.heard), append(asked, d), append(stops, stop)
			}
			pass(2 * Patience)
			for i := range killed {
				stops[i]()
			}
			synctest.Wait()
			var ids []task.ID
			for range 12 {
				synctest.Wait()
				ids = append(ids, w.submit(t, job.Spec{}))
				seq, err := w.Last(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for _, dead := range heard[killed:] {
					dead(seq)
				}
				if killed == 0 {
					pass(10 * time.Millisecond)
				}
			}
			pass(time.Duration(killed)*Patience + Patience/2)
			for _, id := range ids {
				w.wants(t, "a task whose offer is dead", id, task.Abnormal, value.Poison)
			}
			pass(3 * Patience)
			n := 0
			for _, d := range asked {
				n += int(d.asked.Load())
			}
			if n != len(ids) {
				t.Errorf("with %d killed they read %d offers, want %d", killed, n, len(ids))
			}
		})
	}
}

// buried counts the requests for an offer.
type buried struct {
	deliveries
	asked atomic.Int32
}

func (b *buried) Message(ctx context.Context, seq uint64) (events.Record, bool, error) {
	b.asked.Add(1)
	hold(time.Millisecond) // until all have heard of it
	return b.deliveries.Message(ctx, seq)
}
