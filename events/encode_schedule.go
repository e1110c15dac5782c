package events

import (
	"fmt"

	"millrace/task"
)

// schedule appends the fields of a fact about a schedule.
func (o *object) schedule(event task.ScheduleEvent) {
	switch e := event.(type) {
	case task.ScheduleApplied:
		o.seq("revision", e.Revision)
		o.str("digest", e.Digest)
	case task.ScheduleRemoved:
		o.seq("revision", e.Revision)
	case task.SchedulePaused:
		o.seq("revision", e.Revision)
		o.str("reason", e.Reason)
	case task.ScheduleResumed:
		o.seq("revision", e.Revision)
		o.str("reason", e.Reason)
	case task.ScheduleFired:
		o.seq("revision", e.Revision)
		o.time("tick", e.Tick)
		o.time("due", e.Due)
		o.str("detail", e.Detail)
	case task.ScheduleAdmitted:
		o.seq("revision", e.Revision)
		o.time("tick", e.Tick)
		o.time("due", e.Due)
		o.str("trigger", e.Trigger)
		o.str("made", string(e.Made))
		o.str("detail", e.Detail)
		o.ledger(e.Ledger)
	case task.ScheduleSkipped:
		o.seq("revision", e.Revision)
		o.time("tick", e.Tick)
		o.time("until", e.Until)
		o.num("count", e.Count)
		o.str("reason", e.Reason)
		o.str("detail", e.Detail)
		o.ledger(e.Ledger)
	case task.ScheduleQueued:
		o.seq("revision", e.Revision)
		o.time("tick", e.Tick)
		o.str("trigger", e.Trigger)
		o.str("detail", e.Detail)
		o.ledger(e.Ledger)
	default:
		o.fail(fmt.Errorf("%T has no form", event))
	}
}

func (o *object) ledger(l task.Ledger) {
	if l.Last.IsZero() && len(l.Open) == 0 && len(l.Waiting) == 0 && l.Failures == 0 {
		return
	}
	l.Last = l.Last.UTC()
	o.json("ledger", l)
}
