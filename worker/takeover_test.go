package worker_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/task/value"
	"millrace/worker"
)

// two are two workers of a world: one runs a task, the other one waits.
type two struct {
	*world
	a, b *running
	id   task.ID
	end  chan struct{}
}

// withTwo makes worker a run a task until the test ends it; any later run of it ends at once.
func (w *world) withTwo(spec job.Spec) *two {
	w.Helper()
	t := &two{world: w, end: make(chan struct{})}
	t.a = w.start(worker.Config{Beat: 2 * time.Second, NodeTTL: 6 * time.Second, Slots: 2}, blocks(t.end))
	t.id = w.submit(spec)
	pass(time.Millisecond)
	if now := w.task(t.id); now.State != task.Running || now.Node != "a" {
		w.Fatalf("it is %s on %s", now.State, now.Node)
	}
	t.b = w.start(worker.Config{Node: "b", Slots: 2}, map[string]worker.Handler{"h": done})
	return t
}

// A restarted server redelivers leased offers early; one that has lost its consumers redelivers
// everything, as if for the first time. Neither touches an attempt that a healthy worker runs.
func TestEarlyRedelivery(t *testing.T) {
	for name, early := range map[string]func(w *two){
		"a second delivery": func(w *two) { w.log.Redeliver(w.task(w.id).Offer, false) },
		"counted anew":      func(w *two) { w.log.Redeliver(w.task(w.id).Offer, true) },
		"lost consumers":    func(w *two) { w.log.LoseConsumers() },
	} {
		for kind, spec := range map[string]job.Spec{
			"plain": {}, "prefers nodes": {Place: job.Place{Sticky: job.StickyJob}}, "large": {Slots: 2},
			"avoids its node": {Retry: job.Retry{Max: 1, AvoidNode: true}},
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				inBubble(t, func(w *world) {
					k := w.withTwo(spec)
					early(k) // right after the claim
					pass(0)
					for age := range 10 {
						pass(time.Duration(age) * 1700 * time.Millisecond)
						early(k)
						pass(0)
						k.wantFacts(k.id, events.AttemptStarted)
					}
					// The offer was put away, and does not go round.
					before := get(k.a.store, &k.a.deliveries) + get(k.b.store, &k.b.deliveries)
					pass(20 * ackWait)
					if n := get(k.a.store, &k.a.deliveries) + get(k.b.store, &k.b.deliveries) - before; n > 1 {
						t.Errorf("in 20 ack waits it was handed out another %d times", n)
					}
					if before > 30 {
						t.Errorf("it was handed out %d times, for 11 early redeliveries", before)
					}
					close(k.end)
					k.wantState(k.ended(k.id), task.Finished, "")
					k.wantFacts(k.id, events.AttemptStarted, events.AttemptFinished)
					pass(3 * ackWait)
					if out := k.log.Out(); len(out) > 0 {
						t.Errorf("its offer was never acknowledged: %v", out)
					}
				})
			})
		}
	}
}

// A task that was to be cancelled is not lost because its offer came early.
func TestEarlyRedeliveryWhileCancelling(t *testing.T) {
	inBubble(t, func(w *world) {
		ended := make(chan struct{})
		w.start(quick, map[string]worker.Handler{"h": func(ctx context.Context, _ task.Task) error {
			<-ctx.Done()
			<-ended // it takes its time
			return context.Cause(ctx)
		}})
		id := w.submit(job.Spec{Timeout: job.Timeout{Stop: value.Duration(time.Minute)}})
		if _, _, err := w.rec.Do(w.Context(), w.task(id), task.Cancel{Reason: "test"}); err != nil {
			t.Fatal(err)
		}
		cfg := quick
		cfg.Node = "b"
		w.start(cfg, nil)
		for range 10 {
			w.log.Redeliver(w.task(id).Offer, true)
			pass(time.Second)
		}
		w.wantState(w.task(id), task.Cancelling, value.User)
		close(ended)
		w.wantState(w.ended(id), task.Cancelled, value.User)
	})
}

// A silent worker keeps its lease until AckWait after its last heartbeat at most, or until that
// heartbeat has expired; so its task starts elsewhere when the server delivers the offer, with no
// scheduler to help.
func TestTakeoverInTime(t *testing.T) {
	const ttl = 6 * time.Second
	for phase := time.Duration(0); phase < 3*time.Second; phase += 211 * time.Millisecond {
		for _, early := range []bool{false, true} {
			inBubble(t, func(w *world) {
				k := w.withTwo(job.Spec{})
				pass(20*time.Second + phase)
				set(k.a.store, &k.a.cut, true)
				beats := get(k.a.store, &k.a.beats)
				last := beats[len(beats)-1].at
				want := get(k.a.store, &k.a.extended).Add(ackWait)
				if early {
					w.log.Redeliver(w.task(k.id).Offer, true)
					want = last.Add(ttl)
				}
				got := k.ended(k.id)
				k.wantState(got, task.Finished, "")
				if late := got.StartedAt.Sub(want); got.Node != "b" || late < 0 || late > 50*time.Millisecond || got.StartedAt.Sub(last) < ttl || got.StartedAt.Sub(last) > ackWait {
					t.Errorf("phase %v, early %v: it started on %s %v later than it should, %v after the last heartbeat", phase, early, got.Node, late, got.StartedAt.Sub(last))
				}
				// The heartbeat expires before the lease here, so the takeover is based on that.
				f := k.facts(k.id)[1].Fact
				o, from := f.Event.(task.AttemptStarted).TookOver, f.By.Lease
				if o == nil || o.Ground != task.GroundSilence || !o.Heard.Equal(last) || from.At.Sub(last) < ttl || from.Lasts.Std() != ackWait {
					t.Errorf("it says %+v by %+v; the last heartbeat was at %v", o, from, last)
				}
			})
		}
	}
}

// A worker does not know that its claim was stored if the answer was lost. Its heartbeats do not
// name the attempt, so the task starts elsewhere an AckWait after the claim.
func TestClaimThatNobodyKnowsOf(t *testing.T) {
	inBubble(t, func(w *world) {
		a := w.start(worker.Config{Beat: 2 * time.Second, NodeTTL: 6 * time.Second}, map[string]worker.Handler{"h": done})
		birth, err := birth.Of(birth.Submission{Spec: &job.Spec{Handler: "h"}}, nil, 0, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		a.stopPulling(t)
		id := task.ID(events.NewID(time.Now()))
		seq, err := w.rec.Submit(w.Context(), id, birth)
		if err != nil {
			t.Fatal(err)
		}
		offers, err := w.log.Offers(w.Context(), []string{placement.DefaultQueue})
		if err != nil {
			t.Fatal(err)
		}
		if o := offers.(*events.MemoryOffers).Try(); o == nil {
			t.Fatal("there is no offer")
		}
		session := w.node("a").Session
		if _, _, err := w.rec.Do(w.Context(), w.task(id), task.Claim{Node: "a", Session: session, Offer: seq}); err != nil {
			t.Fatal(err)
		}
		claimed := time.Now()
		w.start(worker.Config{Node: "b"}, map[string]worker.Handler{"h": done})
		for range 5 {
			w.log.Redeliver(seq, true)
			pass(time.Second)
		}
		got := w.ended(id)
		if after := got.StartedAt.Sub(claimed); got.Node != "b" || got.Attempt != 2 || after < ackWait || after > ackWait+50*time.Millisecond {
			t.Errorf("attempt %d started on %s %v after the claim of attempt 1, want %v", got.Attempt, got.Node, after, ackWait)
		}
	})
}

// stopPulling has the worker's node take no more work, while it beats.
func (r *running) stopPulling(t *testing.T) {
	t.Helper()
	rec := events.Recorder{Log: r.Memory, Now: time.Now, NewID: events.NewID}
	if _, _, err := rec.DoNode(t.Context(), "a", node.Change{Order: node.OrderCordon}); err != nil {
		t.Fatal(err)
	}
	_ = r.Hint("a", "") // always nil
	synctest.Wait()
}

// An attempt that was suspended for longer than its lease is not saved by the heartbeat that it
// sends first: it may have been taken over.
func TestLateHeartbeatSavesNothing(t *testing.T) {
	for _, late := range []time.Duration{4100 * time.Millisecond, 9 * time.Second} {
		inBubble(t, func(w *world) {
			var beats []int
			k := w.withTwo(job.Spec{})
			pass(10 * time.Second)
			w.log.Redeliver(w.task(k.id).Offer, false)
			set(k.a.store, &k.a.beating, func() error { // the server has it, and the answer is slow
				wait(late)
				beats = append(beats, 1)
				return nil
			})
			pass(2 * late)
			set(k.a.store, &k.a.beating, nil)
			pass(time.Minute)
			facts := types(k.facts(k.id))
			if !slices.Contains(facts, events.AttemptReleased) && !slices.Contains(facts, events.AttemptLate) {
				t.Errorf("heartbeats took %v (%d of them), and it goes on: %v", late, len(beats), facts)
			}
		})
	}
}

// A task that outlives its worker keeps its lease until AckWait after the last heartbeat of its
// node, though that runs out sooner.
func TestOutlivingTakeover(t *testing.T) {
	for _, goodbye := range []bool{true, false} {
		t.Run(fmt.Sprintf("goodbye %v", goodbye), func(t *testing.T) {
			inBubble(t, func(w *world) {
				k := &keeper{}
				cfg := worker.Config{Commands: k, Beat: 2 * time.Second, NodeTTL: 6 * time.Second}
				first := w.start(cfg, nil)
				id := w.submit(adopted)
				pass(time.Minute + 300*time.Millisecond)
				if goodbye {
					first.stop()
					<-first.done
				} else {
					set(first.store, &first.cut, true)
				}
				p := k.has.Load()
				beats := get(first.store, &first.beats)
				last := beats[len(beats)-1]
				if !slices.Equal(last.Runs, []uint64{w.task(id).Epoch}) {
					t.Errorf("the last heartbeat names %v", last.Runs)
				}
				other := &keeper{}
				cfg.Node, cfg.Commands = "b", other
				w.start(cfg, nil)
				w.log.LoseConsumers() // it is offered at once, and again and again
				for w.task(id).Attempt == 1 {
					pass(50 * time.Millisecond)
				}
				select {
				case <-p.stopped:
				default:
					t.Error("it was taken over while it ran")
				}
				if after := w.task(id).StartedAt.Sub(last.at); after < ackWait || after > ackWait+time.Second {
					t.Errorf("it was taken over %v after the last heartbeat, want %v", after, ackWait)
				}
				close(other.has.Load().ends)
				w.wantState(w.ended(id), task.Finished, "")
			})
		})
	}
}
