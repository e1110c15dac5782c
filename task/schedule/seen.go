package schedule

import (
	"slices"
	"time"

	"millrace/task"
)

// The inputs of a decision on a tick, beside the plan: the ledger of the latest decision, the ends
// of earlier ticks' tasks since then, and the trigger of the tick. The scheduler that decides and
// the verifier that decides again call the same functions.

// Remember is what the latest decision leaves to the next: its ledger, with the failures cleared if
// the schedule was stored or resumed since. At is when the decision was made, since when the
// definition got its present form.
func Remember(l task.Ledger, at, since time.Time) task.Ledger {
	if at.Before(since) {
		l.Failures = 0
	}
	return l
}

// BornWithin is how long after its decision a task may still be born.
const BornWithin = time.Minute

// Seen is the known progress of an earlier tick's task.
type Seen struct {
	// Seq is its last known message; 0 if there was none.
	Seq   uint64
	State task.State
}

// Heed returns a ledger without the tasks that are known to have ended; seen is in the order of
// [task.Ledger.Open]. After is the time since the latest decision. A task that is unknown
// after [BornWithin] will not be born and counts as ended.
func Heed(l task.Ledger, seen []Seen, after time.Duration) task.Ledger {
	var ended []Ended
	for i, id := range l.Open {
		switch s := seen[i]; {
		case s.Seq == 0 && after > BornWithin:
			ended = append(ended, Ended{ID: id})
		case s.Seq > 0 && s.State.Terminal():
			ended = append(ended, Ended{ID: id, Failed: s.State.Failed()})
		}
	}
	return Observe(l, ended)
}

// Leave is the fact that a tick gets no task after it was admitted, because the birth was refused.
func (p *Plan) Leave(l task.Ledger, tick time.Time, revision uint64, reason, why string) task.ScheduleSkipped {
	id := TaskID(p.name, tick)
	l.Open = slices.DeleteFunc(slices.Clone(l.Open), func(open task.ID) bool { return open == id })
	return skipped(revision, Owed{Tick: tick}, l, reason, why)
}

// Refuses tells whether a reason is one for which an admitted tick gets no task.
func Refuses(reason string) bool {
	switch reason {
	case task.SkipInvalid, task.SkipUnique, task.SkipFull, task.SkipStranger:
		return true
	}
	return false
}

// Watched is the fire for a tick whose fire has not come in time; false if the schedule has no such
// tick.
func (p *Plan) Watched(tick time.Time) (f Fire, detail string, ok bool) {
	t, ok := p.Is(tick)
	return Fire{Tick: t.At, Due: t.Due, Stored: t.Due}, t.Note, ok
}
