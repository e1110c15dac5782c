package task

import (
	"time"
)

// ScheduleEvent is a fact about a schedule: the fire of a timer, or a decision on a tick. The set is
// closed.
type ScheduleEvent interface{ isScheduleEvent() }

// SchedulePaused records a definition that has no ticks until the schedule is resumed.
type SchedulePaused struct {
	Edition
	Reason string `json:"reason,omitzero" redact:"hide"`
}

// ScheduleResumed records a definition that has ticks again from then on.
type ScheduleResumed struct {
	Edition
	Reason string `json:"reason,omitzero" redact:"hide"`
}

// ScheduleFired is a fire: it announces that a tick is due soon, or is due already. The server
// writes it, from the timer of the schedule.
type ScheduleFired struct {
	// Revision is the revision of the definition that set the timer.
	Revision uint64 `json:"revision,omitzero"`
	// Tick is the logical time. Due is Tick plus jitter and spread.
	Tick time.Time `json:"tick,omitzero"`
	Due  time.Time `json:"due,omitzero"`
	// Detail says in words which rules moved the time; "" for none.
	Detail string `json:"detail,omitzero" redact:"hide"`
}

// ScheduleAdmitted records that a tick gets its task.
type ScheduleAdmitted struct {
	Revision uint64 `json:"revision,omitzero"`
	// Tick is the logical time. Due is Tick plus jitter and spread.
	Tick    time.Time `json:"tick,omitzero"`
	Due     time.Time `json:"due,omitzero"`
	Trigger string    `json:"trigger,omitzero" redact:"word"`
	// Made is the task's id, which follows from schedule and tick.
	Made   ID     `json:"made,omitzero" redact:"keep"`
	Detail string `json:"detail,omitzero" redact:"hide"`
	Ledger Ledger `json:"ledger,omitzero"`
}

// ScheduleSkipped records that a tick, or all ticks from Tick to Until, get no task.
type ScheduleSkipped struct {
	Revision uint64    `json:"revision,omitzero"`
	Tick     time.Time `json:"tick,omitzero"`
	// Until is the last skipped tick and Count the number of them, if more than one.
	Until  time.Time `json:"until,omitzero"`
	Count  int       `json:"count,omitzero"`
	Reason string    `json:"reason,omitzero" redact:"word"`
	Detail string    `json:"detail,omitzero" redact:"hide"`
	Ledger Ledger    `json:"ledger,omitzero"`
}

// ScheduleQueued records that a tick waits for the tasks of earlier ones.
type ScheduleQueued struct {
	Revision uint64    `json:"revision,omitzero"`
	Tick     time.Time `json:"tick,omitzero"`
	Trigger  string    `json:"trigger,omitzero" redact:"word"`
	Detail   string    `json:"detail,omitzero" redact:"hide"`
	Ledger   Ledger    `json:"ledger,omitzero"`
}

// Reasons why a tick gets no task.
const (
	SkipOverlap = "overlap" // tasks of earlier ticks have not ended
	SkipMissed  = "missed"  // it passed while the server was away
	SkipWindow  = "window"  // it is older than the catch-up window
	SkipFailing = "failing" // too many tasks in a row have failed
	SkipInvalid = "invalid" // no task can be made of the definition
	SkipUnique  = "unique"  // another task has the unique key
	SkipPaused  = "paused"  // it was due before the schedule was paused, and nobody had decided on it
	SkipFull    = "full"    // the queue holds as many waiting tasks as it may
	// SkipStranger: a task that the schedule did not make has the id of the tick's task.
	SkipStranger = "stranger"
)

// Ledger is what a schedule must remember from one decision to the next. Each decision carries it,
// so the latest one is enough.
type Ledger struct {
	// Last is the latest tick with a decision.
	Last time.Time `json:"last,omitzero"`
	// Open are the tasks of earlier ticks that are not known to have ended, at most [MaxOpen].
	Open []ID `json:"open,omitempty" redact:"keep"`
	// Waiting are the ticks that wait for those, the oldest first.
	Waiting []WaitingTick `json:"waiting,omitempty"`
	// Failures counts the failed tasks since the last one that did not fail.
	Failures int `json:"failures,omitempty"`
}

// WaitingTick is a tick whose task will be made later.
type WaitingTick struct {
	Tick    time.Time `json:"tick"`
	Trigger string    `json:"trigger" redact:"word"`
}

// MaxOpen bounds [Ledger.Open]. With [job.OverlapAllow] the oldest are forgotten.
const MaxOpen = 64

func (ScheduleFired) isScheduleEvent()    {}
func (ScheduleAdmitted) isScheduleEvent() {}
func (ScheduleSkipped) isScheduleEvent()  {}
func (ScheduleQueued) isScheduleEvent()   {}
