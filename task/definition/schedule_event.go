package definition

import (
	"millrace/task"
	"time"
)

// ScheduleEvent is a fact about a schedule: of a timer that fired, or of what was decided on a tick. The set is closed.
type ScheduleEvent interface{ isScheduleEvent() }

// SchedulePaused says that the definition became one by which nothing fires until the schedule is resumed.
type SchedulePaused struct {
	Edition
	Reason string `json:"reason,omitzero"`
}

// ScheduleResumed says that the definition became one by which ticks from then on fire again.
type ScheduleResumed struct {
	Edition
	Reason string `json:"reason,omitzero"`
}

// ScheduleFired says that a tick is about to be due, or is already. The server writes it.
type ScheduleFired struct {
	// Revision is that of the definition by which the timer was set.
	Revision uint64 `json:"revision,omitzero"`
	// Tick is the logical time and Due when the fire was meant to come, jitter and spread included.
	Tick time.Time `json:"tick,omitzero"`
	Due  time.Time `json:"due,omitzero"`
	// Detail says which rules were at work, "" for none.
	Detail string `json:"detail,omitzero"`
}

// ScheduleAdmitted says that a tick gets its task.
type ScheduleAdmitted struct {
	Revision uint64 `json:"revision,omitzero"`
	// Tick is the logical time and Due when it was meant to fire, jitter and spread included.
	Tick    time.Time `json:"tick,omitzero"`
	Due     time.Time `json:"due,omitzero"`
	Trigger string    `json:"trigger,omitzero"`
	// Made is the task's id, which follows from schedule and tick.
	Made   task.ID `json:"made,omitzero"`
	Detail string  `json:"detail,omitzero"`
	Ledger Ledger  `json:"ledger,omitzero"`
}

// ScheduleSkipped says that a tick, or all from Tick to Until, get no task.
type ScheduleSkipped struct {
	Revision uint64    `json:"revision,omitzero"`
	Tick     time.Time `json:"tick,omitzero"`
	// Until is the last tick left out and Count how many there are, if more than one.
	Until  time.Time `json:"until,omitzero"`
	Count  int       `json:"count,omitzero"`
	Reason string    `json:"reason,omitzero"`
	Detail string    `json:"detail,omitzero"`
	Ledger Ledger    `json:"ledger,omitzero"`
}

// ScheduleQueued says that a tick waits for the tasks of earlier ones.
type ScheduleQueued struct {
	Revision uint64    `json:"revision,omitzero"`
	Tick     time.Time `json:"tick,omitzero"`
	Trigger  string    `json:"trigger,omitzero"`
	Detail   string    `json:"detail,omitzero"`
	Ledger   Ledger    `json:"ledger,omitzero"`
}

// Reasons why a tick gets no task.
const (
	SkipOverlap = "overlap" // tasks of earlier ticks have not ended
	SkipMissed  = "missed"  // it passed while nothing could fire
	SkipWindow  = "window"  // it is older than the catch-up window
	SkipFailing = "failing" // too many tasks in a row have failed
	SkipInvalid = "invalid" // no task can be made of the definition
	SkipUnique  = "unique"  // another task has the unique key
	SkipFull    = "full"    // as many tasks wait in the queue as may
	// SkipStranger: a task that the schedule did not make has the id of the tick's task.
	SkipStranger = "stranger"
)

// Ledger is what a schedule must remember from one decision to the next. Each
// decision carries it, so the latest one tells all.
type Ledger struct {
	// Last is the latest tick on which anything was decided.
	Last time.Time `json:"last,omitzero"`
	// Open are the tasks of earlier ticks that were not seen to have ended, at most [MaxOpen].
	Open []task.ID `json:"open,omitempty"`
	// Waiting are the ticks that wait for those, the oldest first.
	Waiting []WaitingTick `json:"waiting,omitempty"`
	// Failures counts tasks that failed since the last one that did not.
	Failures int `json:"failures,omitempty"`
}

// WaitingTick is a tick whose task is made later.
type WaitingTick struct {
	Tick    time.Time `json:"tick"`
	Trigger string    `json:"trigger"`
}

// MaxOpen bounds [Ledger.Open]. With [job.OverlapAllow] the oldest are forgotten.
const MaxOpen = 64

func (ScheduleFired) isScheduleEvent()    {}
func (ScheduleAdmitted) isScheduleEvent() {}
func (ScheduleSkipped) isScheduleEvent()  {}
func (ScheduleQueued) isScheduleEvent()   {}
