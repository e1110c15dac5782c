package claim_test

import (
	"testing"
	"testing/synctest"

	"millrace/events"
	"millrace/node"
	"millrace/task"
	"millrace/task/job"
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
