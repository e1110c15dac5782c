package promises

import (
	"slices"
	"testing"
	"time"

	"millrace/events"
	"millrace/integration/harness"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
)

// Tasks that wait for a named node run by priority, through a restart of the node and an edit.
// Tasks that still wait when the node is retired leave its lanes.
func TestOrderOnANodesOwnRoute(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	p.Server()
	c := p.Connect()
	n1 := p.Worker("n1", "--slots", "1")
	aimed := func(priority int, line, noNode string) task.ID {
		return p.SubmitAs(c, birth.Submission{
			Spec: &job.Spec{Run: &job.Run{Shell: line, Dir: p.Dir}}, Nodes: []string{"n1"}, NoNode: noNode, Priority: priority,
		})
	}
	blocker := aimed(9, harness.StayUntilGo, job.NoNodeWait)
	p.Await(c, blocker, task.Running)
	first := aimed(3, "true", job.NoNodeWait)
	n1.Kill() // while one offer is leased and one waits, each in a lane
	waiting := map[task.ID]int{first: 3}
	for _, priority := range []int{5, 8, 10} {
		waiting[aimed(priority, "true", job.NoNodeWait)] = priority
	}
	edited := aimed(2, "true", job.NoNodeWait)
	p.Run("task", "edit", string(edited), "--priority", "9")
	waiting[edited] = 9
	p.Write("go", "")
	n1 = p.Worker("n1", "--slots", "1")
	ended := map[task.ID]task.State{blocker: p.Await(c, blocker, task.Finished).State}
	type start struct {
		seq      uint64
		priority int
	}
	var starts []start
	for id, priority := range waiting {
		ended[id] = p.Await(c, id, task.Finished).State
		starts = append(starts, start{p.Find(p.History(c, id), events.AttemptStarted).Seq, priority})
	}
	slices.SortFunc(starts, func(a, b start) int { return int(a.seq) - int(b.seq) })
	var order []int
	for _, s := range starts {
		order = append(order, s.priority)
	}
	if !slices.Equal(order, []int{10, 9, 8, 5, 3}) {
		t.Errorf("they ran in the order of priorities %v, want the larger ones first", order)
	}

	n1.Stop()
	left := aimed(7, "true", job.NoNodeFallback)
	ended[left] = task.Finished
	p.Run("node", "retire", "n1", "--reason", "sold")
	n2 := p.Worker("n2")
	if moved := p.Await(c, left, task.Finished); moved.Node != "n2" {
		t.Errorf("it ran on %s", moved.Node)
	}
	if hasRoute(p, "n1") || !hasRoute(p, "n2") {
		t.Error("want no route of n1, and that of n2")
	}
	p.Judge(c, ended)
	n2.Stop()
}
