package worker_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/queue"
	"millrace/task/where"
	"millrace/worker/claim"
)

// unheard is a log that loses the answer to its first write, and in which something happens before
// the caller learns that.
type unheard struct {
	*events.Memory
	meanwhile func(seq uint64)
}

func (l *unheard) Append(ctx context.Context, f *events.Fact, last uint64) (uint64, error) {
	seq, err := l.Memory.Append(ctx, f, last)
	if then := l.meanwhile; then != nil && err == nil {
		l.meanwhile = nil
		then(seq)
		return 0, fmt.Errorf("%w: the connection was lost", events.ErrUnknown)
	}
	return seq, err
}

// A worker that learns late that its claim was stored runs the task only if it still owns it.
func TestClaimHeardLate(t *testing.T) {
	for _, tt := range []struct {
		name      string
		meanwhile []task.Command
		mine      bool
		then      task.State
	}{
		{name: "still its own", mine: true, then: task.Running},
		{name: "declared lost", meanwhile: []task.Command{task.Lose{Reason: "its node is offline"}}, then: task.Pending},
		{name: "declared lost, and run by another", meanwhile: []task.Command{task.Lose{Reason: "its node is offline"}, task.Claim{Node: "b", Session: "other"}}, then: task.Running},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				id := w.submit(job.Spec{})
				offers, err := w.log.Offers(w.Context(), []string{w.task(id).Route.Queue()})
				if err != nil {
					t.Fatal(err)
				}
				offer, err := offers.Next(w.Context())
				if err != nil {
					t.Fatal(err)
				}
				log := &unheard{Memory: w.log, meanwhile: func(seq uint64) {
					for _, c := range tt.meanwhile {
						now := w.task(id)
						switch e := c.(type) {
						case task.Lose:
							e.Epoch = seq
							c = e
						case task.Claim:
							e.Offer, e.After = now.Turn+1, now.Turn
							c = e
						}
						if _, _, err := w.rec.Do(w.Context(), now, c); err != nil {
							t.Fatal(err)
						}
					}
				}}
				rec := *w.rec
				rec.Log = log
				p := claim.Protocol{Recorder: &rec, Node: "a", Session: "s"}
				var got task.Task
				mine, err := p.Claim(w.Context(), offer, &got)
				if err != nil || mine != tt.mine {
					t.Errorf("claimed: %v, %v, want %v", mine, err, tt.mine)
				}
				if got.State != tt.then {
					t.Errorf("it is taken for %s, want %s", got.State, tt.then)
				}
			})
		})
	}
}

// A task whose queue has a rate is put back, whatever other rules would say, and its offer is
// released; once the rate has admitted it, it is claimed, also when it comes again.
func TestClaimUnderARate(t *testing.T) {
	inBubble(t, func(w *world) {
		id := w.submit(job.Spec{Retry: job.Retry{Max: 1, AvoidNode: true}})
		q, _, err := w.rec.DoQueue(w.Context(), where.DefaultQueue, queue.Limit{Rate: &limit.Rate{Limit: 1}})
		if err != nil {
			t.Fatal(err)
		}
		offers, _ := w.log.Offers(w.Context(), []string{where.DefaultQueue})
		try := offers.(*events.MemoryOffers).Try
		lost := &unheard{Memory: w.log, meanwhile: func(uint64) {}} // its own word of putting it back is lost
		rec := *w.rec
		rec.Log = lost
		p := claim.Protocol{Recorder: &rec, Node: "a", Session: "s"}
		var k task.Task
		if mine, err := p.Claim(w.Context(), try(), &k); mine || err != nil {
			t.Fatalf("claimed %v, %v", mine, err)
		}
		pass(time.Minute)
		if o := try(); o != nil {
			t.Fatalf("the offer comes again: %+v", o)
		}
		k = w.task(id)
		if k.State != task.Held || !k.Throttled {
			t.Fatalf("then it is %+v", k)
		}
		place := func(rated uint64) {
			t.Helper()
			if _, err := w.log.Place(w.Context(), w.rec.Fact(id, task.AdmittedOffer(w.task(id), rated))); err != nil {
				t.Fatal(err)
			}
		}
		place(q.RateSince)
		first := try()
		mine, err := p.Claim(w.Context(), first, &k)
		if !mine || err != nil {
			t.Fatalf("what was admitted is not claimed: %v", err)
		}
		pass(time.Minute) // its lease runs out
		again := claim.Protocol{Recorder: w.rec, Node: "b", Session: "other", Accounts: &events.Accounts{Log: w.log, Beats: w.log, Lease: ackWait}}
		mine, err = again.Claim(w.Context(), try(), &k)
		if !mine || err != nil || k.Losses != 1 {
			t.Fatalf("what was admitted and lost is not taken over: %+v, %v", k, err)
		}
	})
}

// An offer by a later version is left to a worker that can read it; rubbish is acknowledged.
func TestClaimLeavesWhatIsLater(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		left bool
	}{
		"a later version": {`{"type":"task.submitted","v":2}`, true},
		"a later type":    {`{"type":"task.teleported","v":1,"id":"F","at":"2026-03-01T12:00:00Z","task":"T"}`, false},
		"rubbish":         {`rubbish`, false},
	} {
		t.Run(name, func(t *testing.T) {
			offer := &offered{}
			fact, err := events.Decode([]byte(c.text))
			p := claim.Protocol{Node: "a", Session: "s"}
			var got task.Task
			mine, claimErr := p.Claim(t.Context(), &events.Offer{Record: events.Record{Fact: fact, Err: err}, Deliveries: 1, Lease: offer}, &got)
			if mine || claimErr != nil || offer.rested != c.left || offer.acked == c.left {
				t.Errorf("claimed %v (%v), rested %v, acknowledged %v", mine, claimErr, offer.rested, offer.acked)
			}
		})
	}
}

// offered is a lease that records what becomes of it.
type offered struct {
	events.Lease
	rested, acked bool
}

func (o *offered) Rest(time.Duration) error { o.rested = true; return nil }

func (o *offered) Ack() error { o.acked = true; return nil }
