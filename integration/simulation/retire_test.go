package simulation

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"

	"millrace/events"
	"millrace/task"
	"millrace/task/node"
)

// Where nodes that stay offline retire by themselves, no task is lost or stuck: neither those that ran on
// such a node, nor those that are for it alone. While one of the latter is known it keeps the node; the
// node may come back after it has retired, with the process that was only asleep or with another.
func TestSimulationOfRetirement(t *testing.T) {
	var retired, returned, ran, awaited atomic.Int64
	each(max(*historiesFlag/5, 80), func(seed uint64) bool { // fewer have none that is stranded
		h := play(t, *firstFlag+seed, variant{retiring: true})
		h.report(t)
		for _, f := range h.whole(t).Findings {
			t.Errorf("seed %d of retirement: %v: task %s, %v: %s", seed, f.Rule, f.Task, f.Seqs, f.What)
		}
		gone := map[node.ID]uint64{}
		for i := range h.records {
			r := &h.records[i]
			switch r.Fact.Event.(type) {
			case node.WasRetired:
				retired.Add(1)
				gone[r.Fact.Node] = r.Seq
			case node.Registered:
				if gone[r.Fact.Node] > 0 {
					returned.Add(1)
				}
			}
		}
		ran.Add(int64(h.stranded))
		awaited.Add(int64(h.waited))
		return !t.Failed()
	})
	if *seedFlag >= 0 || t.Failed() {
		return
	}
	for what, n := range map[string]*atomic.Int64{"node that has retired": &retired, "node that has come back": &returned, "task whose last attempt ran on a node that retires": &ran, "task that waits for a node": &awaited} {
		if n.Load() == 0 {
			t.Errorf("no history has a %s", what)
		}
	}
}

// The simulation finds out schedulers that do not look whether a task names the node.
func TestSimulationFindsCarelessRetirement(t *testing.T) {
	var found atomic.Bool
	each(100, func(seed uint64) bool {
		found.CompareAndSwap(false, errors.Is(play(t, seed, variant{retiring: true, careless: true}).failure, errKept))
		return !found.Load()
	})
	if !found.Load() {
		t.Error("in 100 histories nobody has noticed")
	}
}

// errKept: a node has retired although a task that had not ended named it.
var errKept = errors.New("a node has retired, and a task names it")

// judgeRetired counts the open tasks that ran last on a node when it retires, and checks that none keeps it. Before
// the faults are over a scheduler may not know the latest tasks.
func (h *history) judgeRetired(r *events.Record) {
	if _, retires := r.Fact.Event.(node.WasRetired); !retires || r.Err != nil {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(h.fold.tasks)) {
		t := h.fold.tasks[id]
		if !t.State.Terminal() && t.Node == string(r.Fact.Node) {
			h.stranded++
		}
		if h.calm && !t.State.Terminal() && t.State != task.Unknown && t.Names(string(r.Fact.Node)) {
			h.blame(id, fmt.Errorf("%w: node %s at %d", errKept, r.Fact.Node, r.Seq))
		}
	}
}
