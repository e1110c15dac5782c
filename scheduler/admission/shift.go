package admission

import (
	"time"

	"millrace/events"
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

// ShiftOf returns the effect of a step.
func ShiftOf(step *events.Step) Shift {
	if !step.Task.Budgeted() {
		return Shift{}
	}
	took := Shift{task.ShiftOf(step.Was.Course, step.Is.Course, step.Record.Task()), nil, step.Record.Seq}
	if !took.None() {
		took.Counters, _ = step.Task.Counters() // a task without valid counters cannot have been admitted
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
