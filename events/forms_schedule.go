package events

import (
	"errors"
	"slices"
	"time"

	"millrace/task"
)

var scheduleForms = []form{
	formOf(ScheduleApplied, aboutSchedule,
		sequence("revision", func(e *task.ScheduleApplied) *uint64 { return &e.Revision }),
		text("digest", func(e *task.ScheduleApplied) *string { return &e.Digest }),
	),
	formOf(ScheduleRemoved, aboutSchedule, sequence("revision", func(e *task.ScheduleRemoved) *uint64 { return &e.Revision })),
	formOf(SchedulePaused, aboutSchedule,
		sequence("revision", func(e *task.SchedulePaused) *uint64 { return &e.Revision }),
		text("reason", func(e *task.SchedulePaused) *string { return &e.Reason }),
	),
	formOf(ScheduleResumed, aboutSchedule,
		sequence("revision", func(e *task.ScheduleResumed) *uint64 { return &e.Revision }),
		text("reason", func(e *task.ScheduleResumed) *string { return &e.Reason }),
	),
	formOf(ScheduleFired, aboutSchedule,
		sequence("revision", func(e *task.ScheduleFired) *uint64 { return &e.Revision }),
		moment("tick", func(e *task.ScheduleFired) *time.Time { return &e.Tick }),
		moment("due", func(e *task.ScheduleFired) *time.Time { return &e.Due }),
		text("detail", func(e *task.ScheduleFired) *string { return &e.Detail }),
	),
	formOf(ScheduleAdmitted, aboutSchedule,
		sequence("revision", func(e *task.ScheduleAdmitted) *uint64 { return &e.Revision }),
		moment("tick", func(e *task.ScheduleAdmitted) *time.Time { return &e.Tick }),
		moment("due", func(e *task.ScheduleAdmitted) *time.Time { return &e.Due }),
		text("trigger", func(e *task.ScheduleAdmitted) *string { return &e.Trigger }),
		text("made", func(e *task.ScheduleAdmitted) *task.ID { return &e.Made }),
		text("detail", func(e *task.ScheduleAdmitted) *string { return &e.Detail }),
		ledger("ledger", func(e *task.ScheduleAdmitted) *task.Ledger { return &e.Ledger }),
	),
	formOf(ScheduleSkipped, aboutSchedule,
		sequence("revision", func(e *task.ScheduleSkipped) *uint64 { return &e.Revision }),
		moment("tick", func(e *task.ScheduleSkipped) *time.Time { return &e.Tick }),
		moment("until", func(e *task.ScheduleSkipped) *time.Time { return &e.Until }),
		number("count", func(e *task.ScheduleSkipped) *int { return &e.Count }),
		text("reason", func(e *task.ScheduleSkipped) *string { return &e.Reason }),
		text("detail", func(e *task.ScheduleSkipped) *string { return &e.Detail }),
		ledger("ledger", func(e *task.ScheduleSkipped) *task.Ledger { return &e.Ledger }),
	),
	formOf(ScheduleQueued, aboutSchedule,
		sequence("revision", func(e *task.ScheduleQueued) *uint64 { return &e.Revision }),
		moment("tick", func(e *task.ScheduleQueued) *time.Time { return &e.Tick }),
		text("trigger", func(e *task.ScheduleQueued) *string { return &e.Trigger }),
		text("detail", func(e *task.ScheduleQueued) *string { return &e.Detail }),
		ledger("ledger", func(e *task.ScheduleQueued) *task.Ledger { return &e.Ledger }),
	),
}

// ledger is what a decision leaves to the next.
func ledger[E any](name string, in func(*E) *task.Ledger) field[E] {
	empty := func(l task.Ledger) bool {
		return l.Last.IsZero() && len(l.Open) == 0 && len(l.Waiting) == 0 && l.Failures == 0
	}
	return dated(name, in, empty, func(l task.Ledger) (task.Ledger, error) {
		var err, wrong error
		l.Last, err = inUTC(l.Last)
		l.Waiting = slices.Clone(l.Waiting)
		for i := range l.Waiting {
			w := &l.Waiting[i]
			if w.Tick, wrong = inUTC(w.Tick); wrong != nil {
				err = errors.Join(err, wrong)
			}
		}
		return l, err
	})
}
