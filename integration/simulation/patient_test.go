package simulation

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"millrace/task"
	"millrace/task/duties"
	"millrace/task/node"
)

// Without a start deadline no task ends because its nodes are away: it waits for them, however long that
// takes, and asks an operator for one. When they come, it runs.
func TestSimulationOfPatience(t *testing.T) {
	var waited atomic.Int64
	each(max(*historiesFlag/5, 1), func(seed uint64) bool {
		h := play(t, *firstFlag+seed, variant{patient: true})
		h.report(t)
		for _, f := range h.whole(t).Findings {
			t.Errorf("seed %d of patience: %v: task %s, %v: %s", seed, f.Rule, f.Task, f.Seqs, f.What)
		}
		waited.Add(int64(h.waited))
		return !t.Failed()
	})
	if *seedFlag < 0 && waited.Load() == 0 {
		t.Error("no history has a task that waits for a node")
	}
}

// bringBack judges the tasks that still wait when all else is over, and starts the nodes that they wait
// for.
func (h *history) bringBack() {
	nodes := slices.Collect(maps.Values(h.fold.nodes))
	for _, id := range slices.Sorted(maps.Keys(h.stories)) {
		t := h.fold.tasks[id]
		if t.State.Terminal() {
			continue
		}
		around := node.NewFleet(nodes, h.fold.seq, time.Now()).Around(&t)
		d := duties.Owes(t, around, h.bounds())
		switch {
		case len(t.Holds) > 0 && t.Waiting() && t.StartBy.IsZero():
			continue // by a limit, the place of which one that waits for a node has
		case t.State != task.Pending || !t.StartBy.IsZero():
			h.blame(id, fmt.Errorf("%w: it is %s, to be started by %v", errWaits, t.State, t.StartBy))
		case d.Who != "operator" || !d.By.IsZero() || d.Command != nil || around.NoNode == "":
			h.blame(id, fmt.Errorf("%w: %+v, %q", errWaits, d, around.NoNode))
		}
		h.waited++
	}
	for _, id := range []node.ID{"n1", "n2", "n3", "n9"} {
		if n := h.fold.nodes[id]; !n.Serves(id.Queue()) {
			h.startWorker(id, false, nil)
		}
	}
}

// errWaits: a task waits at the end for something other than a node.
var errWaits = errors.New("it waits, and no operator can end that by a worker")
