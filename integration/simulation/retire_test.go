package simulation

import (
	"errors"
	"fmt"
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
	each(max(*historiesFlag/5, 200), func(seed uint64) bool { // fewer have none that is stranded
		h := play(t, *firstFlag+seed, variant{retiring: true})
		h.report(t)
		for _, f := range h.whole(t).Findings {
			t.Errorf("seed %d of retirement: %v: task %s, %v: %s", h.seed, f.Rule, f.Task, f.Seqs, f.What)
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

// keepers are the open tasks that name a node. A scheduler whose read model lags behind the log need not
// know any.
func (h *history) keepers(v *view, id node.ID) (all []task.ID) {
	for _, t := range h.fold.tasks {
		if v.Seq() == h.seen && !t.State.Terminal() && t.State != task.Unknown && t.Names(string(id)) {
			all = append(all, t.ID)
		}
	}
	return all
}

// judgeRetired counts the open tasks that ran last on a node when it retires, and checks that none keeps
// it: none that named it when the scheduler asked, and still does. One that came after the question keeps
// nothing. No write spans the tasks and the chain of a node, so a task may always come between the two,
// and nothing follows from that for the task: it waits as for a node that never was, and runs when the
// node begins a new life, here at the end of the history at the latest.
func (h *history) judgeRetired(f *events.Fact, keep []task.ID, seq uint64) {
	if _, retires := f.Event.(node.WasRetired); !retires {
		return
	}
	for _, t := range h.fold.tasks {
		if !t.State.Terminal() && t.Node == string(f.Node) {
			h.stranded++
		}
	}
	slices.Sort(keep)
	for _, id := range keep {
		if t := h.fold.tasks[id]; !t.State.Terminal() && t.Names(string(f.Node)) {
			h.blame(id, fmt.Errorf("%w: node %s at %d", errKept, f.Node, seq))
		}
	}
}
