package quota

import (
	"time"

	"millrace/task"
	"millrace/task/limit"
)

// Shift is the effect of a fact on the attempts of a task under budgets. The zero value is for a
// task without budgets.
type Shift struct {
	limit.Shift
	Counters []limit.Counter
	seq      uint64
}

// ShiftOf returns the effect of a recorded event that changed a task from one course to another. t is
// nil for an event that is not about a task.
func ShiftOf(t *task.Task, was, is task.Course, r task.Recorded) Shift {
	if !t.Budgeted() {
		return Shift{}
	}
	took := Shift{task.ShiftOf(was, is, r), nil, r.Seq}
	if !took.None() {
		took.Counters, _ = t.Counters() // a task without valid counters cannot have been admitted
	}
	return took
}

// Asked is the time until which a failed task asks for a delay; zero if it asks for none.
func Asked(e task.AttemptFailed, at time.Time) time.Time {
	if e.RetryAfter <= 0 {
		return time.Time{}
	}
	return at.Add(e.RetryAfter.Std())
}
