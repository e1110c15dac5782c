package duties

import (
	"fmt"
	"time"

	"millrace/task"
	"millrace/task/value"
)

// adoptDuty is the duty of a live attempt that outlives its worker when the session that ran it is
// gone. The node may come back for as long as a silent worker keeps its lease. The attempt itself
// ends earlier than that, so none of its processes is left afterwards.
func adoptDuty(t task.Task, gone time.Time, d Duty, s Settings) Duty {
	d.Who = "scheduler"
	d.What = fmt.Sprintf("declare the attempt lost, unless the worker of node %s comes back and goes on with it: it outlives the session that ended at %s", t.Node, value.Clock(gone))
	if by := gone.Add(s.AckWait); d.Command == nil || by.Before(d.By) {
		d.By = by
	}
	d.Look = false
	d.Command = task.Lose{Epoch: t.Epoch, Reason: "node " + t.Node + " did not come back for it in time"}
	return d
}
