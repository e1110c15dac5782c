package simulation

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"millrace/events"
	"millrace/task"
	"millrace/task/value"
	"millrace/worker/claim"
)

// Where nodes run several tasks at once, and most tasks say how many of their kind may run on one
// node, no node runs more. All tasks end, whatever is killed or lost, and verify comes to every
// refusal of a node as well.
func TestSimulationOfNodesWithRoom(t *testing.T) {
	var postponed atomic.Int64
	each(max(*historiesFlag/5, 100), func(seed uint64) bool { // in fewer no node is full
		h := play(t, *firstFlag+seed, variant{roomy: true})
		h.report(t)
		for _, f := range h.whole(t).Findings {
			t.Errorf("seed %d of nodes with room: %v: task %s, %v: %s", seed, f.Rule, f.Task, f.Seqs, f.What)
		}
		for i := range h.records {
			r := &h.records[i]
			if e, ok := r.Fact.Event.(task.Postponed); ok && r.Err == nil && r.Fact.Actor != stranger && e.Reason == value.PerNode {
				postponed.Add(1)
			}
		}
		return !t.Failed()
	})
	if *seedFlag < 0 && postponed.Load() == 0 {
		t.Error("no history has a task for which a node had no place")
	}
}

// The simulation finds out a node that forgets what it runs.
func TestSimulationFindsCrowdedNodes(t *testing.T) {
	var found atomic.Bool
	each(100, func(seed uint64) bool {
		h := play(t, seed, variant{roomy: true, protocol: func(p *claim.Protocol) protocol { return roomless{p} }})
		if h.failure != nil && strings.Contains(h.failure.Error(), "at once, and") {
			found.Store(true)
		}
		return !found.Load()
	})
	if !found.Load() {
		t.Error("in 100 histories nobody has noticed")
	}
}

// roomless gives the places of a task back as soon as it has claimed it.
type roomless struct{ *claim.Protocol }

func (p roomless) Claim(ctx context.Context, o *events.Offer, t *task.Task) (bool, error) {
	mine, err := p.Protocol.Claim(ctx, o, t)
	if mine {
		p.Vacate(t)
	}
	return mine, err
}
