package events

import (
	"time"

	"millrace/task"
)

var otherForms = []form{
	formOf(LimitGranted, aboutLimits,
		list("grants", func(e *task.Granted) *[]task.Grant { return &e.Grants }),
		moments("rates", func(e *task.Granted) *map[string]time.Time { return &e.Rates }),
	),
	formOf(UniqueClaimed, aboutKey,
		text("holder", func(e *task.KeyClaimed) *task.ID { return &e.Holder }),
		list("before", func(e *task.KeyClaimed) *[]task.ID { return &e.Before }),
	),
	formOf(BreakerOpened, aboutJob,
		text("reason", func(e *task.BreakerOpened) *string { return &e.Reason }),
		moment("until", func(e *task.BreakerOpened) *time.Time { return &e.Until }),
	),
	formOf(BreakerHalfOpened, aboutJob,
		text("reason", func(e *task.BreakerHalfOpened) *string { return &e.Reason }),
		moment("until", func(e *task.BreakerHalfOpened) *time.Time { return &e.Until }),
		number("left", func(e *task.BreakerHalfOpened) *int { return &e.Left }),
	),
	formOf(BreakerTried, aboutJob,
		text("reason", func(e *task.BreakerTried) *string { return &e.Reason }),
		moment("until", func(e *task.BreakerTried) *time.Time { return &e.Until }),
		number("left", func(e *task.BreakerTried) *int { return &e.Left }),
	),
	formOf(BreakerClosed, aboutJob, text("reason", func(e *task.BreakerClosed) *string { return &e.Reason })),
	formOf(MessageDismissed, aboutMessage, text("reason", func(e *task.MessageDismissed) *string { return &e.Reason })),
	formOf(JobApplied, aboutJob,
		sequence("revision", func(e *task.JobApplied) *uint64 { return &e.Revision }),
		text("digest", func(e *task.JobApplied) *string { return &e.Digest }),
	),
	formOf(JobRemoved, aboutJob, sequence("revision", func(e *task.JobRemoved) *uint64 { return &e.Revision })),
	formOf(QueuePaused, aboutQueue,
		text("reason", func(e *task.QueuePaused) *string { return &e.Reason }),
		moment("until", func(e *task.QueuePaused) *time.Time { return &e.Until }),
	),
	formOf(QueueResumed, aboutQueue, text("reason", func(e *task.QueueResumed) *string { return &e.Reason })),
	formOf(QueueLimited, aboutQueue,
		number("running", func(e *task.QueueLimited) *int { return &e.Running }),
		number("waiting", func(e *task.QueueLimited) *int { return &e.Waiting }),
		part("rate", func(e *task.QueueLimited) *task.Rate { return &e.Rate }, func(r task.Rate) bool { return r == task.Rate{} }),
		text("reason", func(e *task.QueueLimited) *string { return &e.Reason }),
	),
	formOf(QueuePurged, aboutQueue,
		text("reason", func(e *task.QueuePurged) *string { return &e.Reason }),
		number("ended", func(e *task.QueuePurged) *int { return &e.Ended }),
	),
}

// moments are times by name.
func moments[E any](name string, in func(*E) *map[string]time.Time) field[E] {
	empty := func(m map[string]time.Time) bool { return len(m) == 0 }
	return dated(name, in, empty, func(m map[string]time.Time) (map[string]time.Time, error) {
		all := make(map[string]time.Time, len(m))
		for of, at := range m {
			at, err := inUTC(at)
			if err != nil {
				return nil, err
			}
			all[of] = at
		}
		return all, nil
	})
}
