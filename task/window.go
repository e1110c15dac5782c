package task

import "time"

// Shut explains the due time of a birth: its window was closed.
type Shut struct {
	// Calendar is the revision of the calendar that is closed. From is the time from which the
	// opening was computed.
	Calendar uint64    `json:"calendar"`
	From     time.Time `json:"from"`
	// Detail describes it in words.
	Detail string `json:"detail,omitempty"`
}

// Windowed tells whether the birth waits for its window. A task with another hold is checked when
// it is offered, and for a parent each child is checked.
func (e *Submitted) Windowed() bool {
	return e.Spec.Window != "" && !e.Spec.Parental() && !e.waitsForOthers()
}

// Await makes the birth wait until its window opens. The bounds on its waiting time begin then.
func (e *Submitted) Await(opens time.Time, shut Shut) {
	e.Due, e.Window = opens, &shut
	e.StartBy, e.EndBy = time.Time{}, time.Time{}
	e.bound(opens)
}

// bound sets the bounds of a birth that may begin at a time.
func (e *Submitted) bound(from time.Time) {
	e.boundWhole(from)
	if p := e.Spec.Timeout.Pending.Std(); p > 0 && !e.waitsForOthers() {
		e.StartBy = from.Add(p)
	}
}
