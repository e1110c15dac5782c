package schedule

import (
	"slices"
	"time"

	"millrace/task"
	"millrace/task/definition"
)

// What a decision on a tick is made from beside the plan: what the latest one has left, what became of the tasks of
// earlier ticks since, and what brought the tick up. Whoever decides and whoever decides again ask the same functions.

// Remember is what the latest decision leaves to the next: its ledger, without the failures if whoever stored or resumed
// the schedule since has forgiven those. At is when the decision was made, since when the definition became what it is.
func Remember(l definition.Ledger, at, since time.Time) definition.Ledger {
	if at.Before(since) {
		l.Failures = 0
	}
	return l
}

// BornWithin is how long after its decision a task may still be born.
const BornWithin = time.Minute

// Seen is how far a task of an earlier tick was seen to have come.
type Seen struct {
	// Seq is its last message that was known, 0 if nobody knew of it.
	Seq   uint64
	State task.State
}

// Heed is a ledger without its tasks that have ended, as far as they were seen, in the order of [definition.Ledger.Open], a
// while after the latest decision. One that nobody knows of by [BornWithin] will not be born: that is an end, too.
func Heed(l definition.Ledger, seen []Seen, after time.Duration) definition.Ledger {
	var ended []Ended
	for i, id := range l.Open {
		switch s := seen[i]; {
		case s.Seq == 0 && after > BornWithin:
			ended = append(ended, Ended{ID: id})
		case s.Seq > 0 && s.State.Terminal():
			ended = append(ended, Ended{ID: id, Failed: s.State == task.Error || s.State == task.Abnormal})
		}
	}
	return Observe(l, ended)
}

// Leave is the fact that a tick gets no task though it was to get one: that was refused, for a reason and in words.
func (p *Plan) Leave(l definition.Ledger, tick time.Time, revision uint64, reason, why string) definition.ScheduleSkipped {
	id := TaskID(p.name, tick)
	l.Open = slices.DeleteFunc(slices.Clone(l.Open), func(open task.ID) bool { return open == id })
	return p.Refuse(l, Owed{Tick: tick}, revision, reason, why)
}

// Refuses tells whether a reason is one for which a tick that was to get a task gets none.
func Refuses(reason string) bool {
	switch reason {
	case definition.SkipInvalid, definition.SkipUnique, definition.SkipFull, definition.SkipStranger:
		return true
	}
	return false
}

// Watched is the fire of a tick of which none has come in time; false if the schedule has no such tick.
func (p *Plan) Watched(tick time.Time) (f Fire, detail string, ok bool) {
	t, ok := p.Is(tick)
	return Fire{Tick: t.At, Due: t.Due, Stored: t.Due}, t.Note, ok
}
