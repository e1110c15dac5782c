package scheduler

import (
	"maps"
	"sync"

	"millrace/task"
	"millrace/task/duties"
)

// Repair is a kind of fault that a sweep found and repaired.
type Repair string

// The kinds of repairs.
const (
	// RepairOffer: a pending task lacked its offer, which another component should have placed.
	RepairOffer Repair = "offer"
	// RepairTimer: the timer of a scheduled or retrying task was gone, or had not fired in time.
	RepairTimer Repair = "timer"
	// RepairSession: a task was running under a session that had ended long ago.
	RepairSession Repair = "session"
	// RepairStop: a task was past its run timeout or the deadline of its cancel, and its node had
	// not reported that.
	RepairStop Repair = "stop"
	// RepairMove: a task waited long for a node that takes no work, and its rules move it.
	RepairMove Repair = "move"
	// RepairHold: the hold of a task had opened, and the task was not released.
	RepairHold Repair = "hold"
	// RepairDead: an offer had been handed out so often that the server gave it up.
	RepairDead Repair = "dead"
	// RepairSchedule: a schedule lacked a timer of its present revision, or an admitted tick lacked
	// its task.
	RepairSchedule Repair = "schedule"
	// RepairChild: a parent lacked a child, which its submitter had not made.
	RepairChild Repair = "child"
)

// RepairKinds lists all kinds.
var RepairKinds = []Repair{RepairOffer, RepairTimer, RepairSession, RepairStop, RepairMove, RepairHold,
	RepairDead, RepairChild, RepairSchedule}

// repairs counts by kind.
type repairs struct {
	mu    sync.Mutex
	count map[Repair]int // guarded by mu
}

func (r *repairs) add(kind Repair) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.count == nil {
		r.count = map[Repair]int{}
	}
	r.count[kind]++
}

// all returns the counts; a missing kind is 0.
func (r *repairs) all() map[Repair]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.count)
}

// kindOf is the kind of repair if the sweep does a task's overdue duty; "" if only a deadline has
// passed.
func kindOf(t *task.Task, d *duties.Duty, long bool) Repair {
	_, expires := d.Command.(task.Expire)
	switch {
	case t.Waiting() && (expires || len(t.Holds) > 0), t.Live() && t.Epoch == 0:
		return "" // only the scheduler handles that
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
			// A move to another node may have become possible only a moment ago.
			if _, own := move.To.Node(); !own {
				return RepairMove
			}
		}
	}
	return ""
}
