package integration

import (
	"slices"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
)

// What waits for a named node runs by priority, through a restart of the node and an edit; what
// still waits there when the node is retired moves on from its lanes.
func TestOrderOnANodesOwnRoute(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 2*time.Second)
	p.server()
	c := p.connect()
	n1 := p.worker("n1", "--slots", "1")
	aimed := func(priority int, line, noNode string) task.ID {
		return p.submitAs(c, task.Submission{
			Spec: &task.Spec{Run: &task.Run{Shell: line, Dir: p.dir}}, Nodes: []string{"n1"}, NoNode: noNode, Priority: priority,
		})
	}
	blocker := aimed(9, stayUntilGo, task.NoNodeWait)
	p.await(c, blocker, task.Running)
	first := aimed(3, "true", task.NoNodeWait)
	n1.kill() // with an offer leased, and one waiting, each in a lane
	waiting := map[task.ID]int{first: 3}
	for _, priority := range []int{5, 8, 10} {
		waiting[aimed(priority, "true", task.NoNodeWait)] = priority
	}
	edited := aimed(2, "true", task.NoNodeWait)
	p.run("task", "edit", string(edited), "--priority", "9")
	waiting[edited] = 9
	p.write("go", "")
	n1 = p.worker("n1", "--slots", "1")
	ended := map[task.ID]task.State{blocker: p.await(c, blocker, task.Finished).State}
	type start struct {
		seq      uint64
		priority int
	}
	var starts []start
	for id, priority := range waiting {
		ended[id] = p.await(c, id, task.Finished).State
		starts = append(starts, start{p.find(p.history(c, id), events.AttemptStarted).Seq, priority})
	}
	slices.SortFunc(starts, func(a, b start) int { return int(a.seq) - int(b.seq) })
	var order []int
	for _, s := range starts {
		order = append(order, s.priority)
	}
	if !slices.Equal(order, []int{10, 9, 8, 5, 3}) {
		t.Errorf("they ran in the order of priorities %v, want the larger ones first", order)
	}

	n1.stop()
	left := aimed(7, "true", task.NoNodeFallback)
	ended[left] = task.Finished
	p.run("node", "retire", "n1", "--reason", "sold")
	n2 := p.worker("n2")
	if moved := p.await(c, left, task.Finished); moved.Node != "n2" {
		t.Errorf("it ran on %s", moved.Node)
	}
	if p.hasRoute("n1") || !p.hasRoute("n2") {
		t.Error("want no route of n1, and that of n2")
	}
	p.judge(c, ended)
	n2.stop()
}
