package events

import "millrace/task"

func (w *wire) scheduleEvent() any {
	switch w.typ {
	case ScheduleApplied:
		return task.ScheduleApplied{Revision: w.revision, Digest: w.digest}
	case ScheduleRemoved:
		return task.ScheduleRemoved{Revision: w.revision}
	case SchedulePaused:
		return task.SchedulePaused{Revision: w.revision, Reason: w.reason}
	case ScheduleResumed:
		return task.ScheduleResumed{Revision: w.revision, Reason: w.reason}
	case ScheduleFired:
		return task.ScheduleFired{Revision: w.revision, Tick: w.tick, Due: w.due, Detail: w.detail}
	case ScheduleAdmitted:
		return task.ScheduleAdmitted{Revision: w.revision, Tick: w.tick, Due: w.due, Trigger: w.trigger, Made: task.ID(w.made), Detail: w.detail, Ledger: w.ledger}
	case ScheduleSkipped:
		return task.ScheduleSkipped{Revision: w.revision, Tick: w.tick, Until: w.until, Count: w.count, Reason: w.reason, Detail: w.detail, Ledger: w.ledger}
	case ScheduleQueued:
		return task.ScheduleQueued{Revision: w.revision, Tick: w.tick, Trigger: w.trigger, Detail: w.detail, Ledger: w.ledger}
	}
	return nil
}
