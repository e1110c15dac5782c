package task

import (
	"time"

	"millrace/task/job"
	"millrace/task/placement"
	"millrace/task/value"
)

// A task that is due later waits for its timer: a message that the server keeps until then. Any
// client with the permission to set timers can set or remove any timer, including those of other
// tasks and routes. A timer is therefore only a reference: it names the task and its turn, and
// carries no work. The claim reads the work from the log. A forged timer can only repeat a valid
// offer, or has no effect.

// TimerError is how far the clocks of servers may differ, 1 s. A timer that the log stored up to 1
// s before the task is due still counts.
const TimerError = time.Second

// OfferError is how long before the task is due the log may have stored an offer that counts, 3 s. Its
// recorder went by a clock that follows the log's, which is wrong by up to half the time of an answer.
const OfferError = 3 * time.Second

// Due records that the time for which the task waited has come. The server writes it.
type Due struct {
	// After is the task's Turn that is due. For any other turn the message has no effect.
	After uint64 `json:"after"`
	// Route is where it offers the task. If the task waits elsewhere, the message has no effect.
	Route placement.Route `json:"route,omitzero" redact:"keep"`
	// Due is when the timer was to fire.
	Due time.Time `json:"due,omitzero"`
	// Number is the number of the task's [placement.Lane], by which a node orders the tasks on its own
	// route. No other rule uses it.
	Number int `json:"lane,omitzero"`
}

func (Due) isEvent() {}

// Timer is the reference that a timer stores instead of an offer.
func (e *Queued) Timer() Due {
	return Due{After: e.After, Route: e.Route, Due: e.Due, Number: e.Lane().Number}
}

// Replaces tells whether a timer replaces the one that is there. A timer of a later turn does, so a
// slow writer cannot replace a newer timer with an older one. One turn has one due time and one
// route. If two timers of a turn differ in these, one of them is forged, and the writer that knows
// the log wins. Only a birth can legitimately be written twice with two due times; the first birth
// counts.
func (d Due) Replaces(there Due) bool {
	same := d.Route == there.Route && d.Due.Equal(there.Due)
	return d.After > there.After || d.After == there.After && d.After > 0 && !same
}

// Before tells whether the timer belongs to a turn before the one that began with the fact at head.
// The recorder of that fact may then remove the timer.
func (d Due) Before(head uint64) bool { return d.After < head }

// Awaits tells whether the task waits to be claimed in the turn and on the route of the reference.
func (t *Task) Awaits(d Due) bool {
	return t.Waiting() && t.Offered && t.Turn == d.After && t.Route == d.Route
}

// due applies a timer's message.
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

// waited returns why the task waits, and still will once it is offered, as a code and in words.
func (t *Task) waited() (reason, message string) {
	if _, postponed := job.Postpones(t.Reason); postponed || t.Reason == value.Step { // it was postponed, and no longer is
		return "", ""
	}
	return t.Reason, t.Message
}
