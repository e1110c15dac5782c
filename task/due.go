package task

import (
	"time"

	"millrace/task/job"
	"millrace/task/where"
)

// A task that is due later waits for its timer, a message that the server keeps until then. Whoever may
// set timers may set any, also those of tasks and routes that are none of its business, and may
// remove all. So what fires is a reference: it says which turn of which task is due, and nothing of what is
// to run. The claim reads that from the log. A timer that nobody has set for its task repeats an
// offer that is good anyway, or means nothing.

// TimerError is by how much the clocks of servers may differ: what the log has stored that much
// before a task is due still counts as its timer.
const TimerError = time.Second

// Due says that the time of a task has come for which it has waited. The server writes it.
type Due struct {
	// After is the task's Turn that is due; for any other it means nothing.
	After uint64 `json:"after"`
	// Route is where it offers the task; if the task waits elsewhere it means nothing.
	Route where.Route `json:"route,omitzero"`
	// Due is when it was to fire.
	Due time.Time `json:"due,omitzero"`
	// Number is that of the task's [where.Lane], by which a node orders what waits on its own route; nothing else depends on it.
	Number int `json:"lane,omitzero"`
}

func (Due) isEvent() {}

// Timer is the reference that a timer holds in place of an offer.
func (e *Queued) Timer() Due {
	return Due{After: e.After, Route: e.Route, Due: e.Due, Number: e.Lane().Number}
}

// Replaces tells whether a timer takes the place of the one that is there. That of a later turn does: who
// is slow does not replace a newer timer by an older one. A turn has one due time and one route, so
// of two that differ in them, one is nobody's, and who sets a timer knows the log. Only a birth may have been
// written twice, due in a while from then, and of births the first one counts.
func (d Due) Replaces(there Due) bool {
	same := d.Route == there.Route && d.Due.Equal(there.Due)
	return d.After > there.After || d.After == there.After && d.After > 0 && !same
}

// Before tells whether the timer is of a turn before that which began with the fact at a sequence: then whoever
// recorded that fact may remove it.
func (d Due) Before(head uint64) bool { return d.After < head }

// Awaits tells whether a reference is to the turn and the route of a task that waits to be claimed.
func (t *Task) Awaits(d Due) bool {
	return t.Waiting() && t.Offered && t.Turn == d.After && t.Route == d.Route
}

// due adds what a timer has brought.
func (t *Task) due(e *Due, r Recorded) {
	open := t.Waiting() && t.State != Unknown && len(t.Holds) == 0 && !t.Offered
	if !open || t.Turn != e.After || t.Route != e.Route || r.At.Add(TimerError).Before(t.Due) {
		return
	}
	t.Throttled = false
	reason, message := t.waited()
	t.enter(Pending, reason, message, r)
	t.Offered = true
	if !t.Due.IsZero() {
		t.Since = t.Due
	}
}

// waited is why the task waits and goes on to, as a code and in words, once it is offered.
func (t *Task) waited() (reason, message string) {
	if _, postponed := job.Postpones(t.Reason); postponed { // which was why it waited, and does not now
		return "", ""
	}
	return t.Reason, t.Message
}
