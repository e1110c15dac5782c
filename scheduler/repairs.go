package scheduler

import (
	"maps"
	"sync"

	"millrace/task"
)

// Repair is a kind of thing that a sweep found and that should not have been there.
type Repair string

// The kinds of repairs.
const (
	// RepairOffer: a task was pending, and whoever should have offered it had not.
	RepairOffer Repair = "offer"
	// RepairTimer: a task was scheduled or retrying, and its timer was gone, or had not fired when it was due.
	RepairTimer Repair = "timer"
	// RepairSession: a task was running under a session that was over for long.
	RepairSession Repair = "session"
	// RepairStop: a task was past its run timeout, or the deadline of its cancel, and its node had not said so.
	RepairStop Repair = "stop"
	// RepairMove: a task waited for long for a node that takes no work, and its rules move it.
	RepairMove Repair = "move"
	// RepairHold: what held a task had opened, and nobody had let it go.
	RepairHold Repair = "hold"
	// RepairDead: an offer had been handed out so often that the server gave it up.
	RepairDead Repair = "dead"
	// RepairSchedule: a schedule had no timer of its present revision, or a tick that was to get its task had none.
	RepairSchedule Repair = "schedule"
	// RepairChild: a parent lacked a child, and whoever submitted it had not made it.
	RepairChild Repair = "child"
)

// RepairKinds are all kinds.
var RepairKinds = []Repair{RepairOffer, RepairTimer, RepairSession, RepairStop, RepairMove, RepairHold, RepairDead, RepairChild, RepairSchedule}

// repairs counts by kind.
type repairs struct {
	mu    sync.Mutex
	count map[Repair]int // guarded by mu
}

func (r *repairs) add(kind Repair, n int) {
	if n == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.count == nil {
		r.count = map[Repair]int{}
	}
	r.count[kind] += n
}

// all returns what was counted; what is not there is 0.
func (r *repairs) all() map[Repair]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.count)
}

// kindOf is what kind of repair it is to do a task's overdue duty in the sweep;
// "" if a passed deadline is all that there is to it.
func kindOf(t *task.Task, d *task.Duty, long bool) Repair {
	_, expires := d.Command.(task.Expire)
	switch {
	case t.Waiting() && (expires || len(t.Holds) > 0), t.Live() && t.Epoch == 0:
		return "" // nobody but the scheduler sees to that
	case t.State == task.Scheduled || t.State == task.Retrying:
		return RepairTimer
	case t.State == task.Pending && !t.Offered:
		return RepairOffer
	case t.Live() && d.Who == "scheduler":
		if long {
			return RepairSession
		}
	case t.Live():
		return RepairStop
	case t.State == task.Pending && long:
		if move, ok := d.Command.(task.Reassign); ok {
			// That to another node may have been possible since a moment ago.
			if _, own := move.To.Node(); !own {
				return RepairMove
			}
		}
	}
	return ""
}
