package scheduler

import (
	"testing"

	"millrace/task"
	"millrace/task/duties"
	"millrace/task/placement"
	"millrace/task/value"
)

// Enforcing a deadline that only the scheduler enforces is no repair. Taking a step that another
// component should have taken is one.
func TestKindOf(t *testing.T) {
	expire, move := task.Expire{Reason: value.Timeout}, task.Reassign{To: placement.QueueRoute("q", 5)}
	for name, c := range map[string]struct {
		task task.Task
		duty duties.Duty
		long bool
		want Repair
	}{
		"a timer that did not fire":               {task.Task{State: task.Retrying}, duties.Duty{Who: "server"}, false, RepairTimer},
		"the whole has taken too long, in a wait": {task.Task{State: task.Retrying}, duties.Duty{Who: "server", Command: expire}, false, ""},
		"an offer that was not placed":            {task.Task{State: task.Pending}, duties.Duty{Who: "scheduler"}, false, RepairOffer},
		"the whole has, before it was placed":     {task.Task{State: task.Pending}, duties.Duty{Who: "scheduler", Command: expire}, false, ""},
		"not started in time":                     {task.Task{State: task.Pending, Offered: true}, duties.Duty{Command: expire}, true, ""},
		"not moved in time":                       {task.Task{State: task.Pending, Offered: true}, duties.Duty{Command: move}, true, RepairMove},
		"a parent has taken too long":             {task.Task{State: task.Running}, duties.Duty{Who: "its children", Command: task.Cancel{}}, false, ""},
		"a worker has not stopped a task":         {task.Task{State: task.Running, Epoch: 7}, duties.Duty{Who: "n1", Command: task.Cancel{}}, false, RepairStop},
		"a node was lost":                         {task.Task{State: task.Running, Epoch: 7}, duties.Duty{Who: "scheduler"}, false, ""},
		"a node was lost long ago":                {task.Task{State: task.Running, Epoch: 7}, duties.Duty{Who: "scheduler"}, true, RepairSession},
		"a signal that did not come":              {task.Task{State: task.Held, Work: task.Work{Holds: []string{task.HoldSignal}}}, duties.Duty{Command: expire}, false, ""},
	} {
		if got := kindOf(&c.task, &c.duty, c.long); got != c.want {
			t.Errorf("%s: repair %q, want %q", name, got, c.want)
		}
	}
}
