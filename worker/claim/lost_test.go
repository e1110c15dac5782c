package claim_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"millrace/events"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/worker/claim"
)

// severed is the lease of an offer whose server was away since it came, as of when says.
type severed struct {
	events.Lease
	when func() bool
}

func (s severed) Severed() bool { return s.when() }

// An offer in hand outlives its birth where the server comes back with an older log. A worker that
// knows of the outage claims nothing; one whose claim went out meanwhile does not run the task, of
// which the log holds nothing but that claim. If the birth is still there, the task runs.
func TestClaimOfALostBirth(t *testing.T) {
	for _, c := range []struct {
		name          string
		lost          bool
		before, after bool // whether the outage is known before the claim, and after it
		mine          bool
		facts         int // of the chain
	}{
		{"known before", true, true, true, false, 0},
		{"known after", true, false, true, false, 1},
		{"the birth is there, known before", false, true, true, true, 1},
		{"the birth is there, known after", false, false, true, true, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				id := task.ID(events.NewID(w.rec.Now()))
				work := task.Work{Spec: &job.Spec{Handler: "h"}, Route: "default.5"}
				if _, err := w.rec.Submit(t.Context(), id, task.Submitted{Work: work}); err != nil {
					t.Fatal(err)
				}
				offer := w.offers.Try()
				if c.lost {
					w.log.Lose(1)
				}
				asked := 0
				offer.Lease = severed{offer.Lease, func() bool { asked++; return asked == 1 && c.before || asked > 1 && c.after }}
				p := &claim.Protocol{Recorder: w.rec, Node: node.ID("a"), Session: "s"}
				var got task.Task
				mine, err := p.Claim(t.Context(), offer, &got)
				facts := 0
				for _, r := range w.log.All() {
					if r.Kind == events.KindChain {
						facts++
					}
				}
				if mine != c.mine || facts != c.facts {
					t.Errorf("it is claimed: %v, error %v, and the chain has %d facts; want %v and %d", mine, err, facts, c.mine, c.facts)
				}
			})
		})
	}
}

// An attempt outlives its claim where the server comes back with an older log, in which another worker's
// claim, or the end of the task, has the sequence of its own. Nothing that it reports counts.
func TestReportOfALostAttempt(t *testing.T) {
	for name, next := range map[string]func(offer uint64) task.Command{
		"another claim": func(offer uint64) task.Command {
			return task.Claim{Node: "b", Session: "other", Offer: offer}
		},
		"another claim of its own worker": func(offer uint64) task.Command {
			return task.Claim{Node: "a", Session: "s", Offer: offer}
		},
		"an end": func(uint64) task.Command { return task.Cancel{Reason: "a whim"} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				id := task.ID(events.NewID(w.rec.Now()))
				if _, err := w.rec.Submit(t.Context(), id, task.Submitted{Work: task.Work{Spec: &job.Spec{Handler: "h"}, Route: "default.5"}}); err != nil {
					t.Fatal(err)
				}
				offer := w.offers.Try()
				p := &claim.Protocol{Recorder: w.rec, Node: "a", Session: "s"}
				var mine task.Task
				if ok, err := p.Claim(t.Context(), offer, &mine); err != nil || !ok {
					t.Fatal(ok, err)
				}
				w.log.Lose(1)
				pass(lease)
				now, err := w.rec.Load(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				if now, _, err = w.rec.Do(t.Context(), now, next(offer.Seq)); err != nil || now.Head != mine.Epoch {
					t.Fatalf("the chain ends at %d, error %v; the attempt began at %d", now.Head, err, mine.Epoch)
				}
				offer.Lease = severed{offer.Lease, func() bool { return true }}
				if err := p.Report(t.Context(), &mine, offer, task.Finish{Epoch: mine.Epoch}); !errors.Is(err, task.ErrFenced) {
					t.Errorf("the report: %v, want that it is fenced", err)
				}
				is, err := w.rec.Load(t.Context(), id)
				if err != nil || is.State != now.State || is.Session != now.Session {
					t.Errorf("then the task is %s of %q, error %v; before it was %s of %q", is.State, is.Session, err, now.State, now.Session)
				}
			})
		})
	}
}
