package admission

import (
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/limit"
)

// Shift is what a fact did to the attempts of a task under budgets. The zero value is that of one under none.
type Shift struct {
	limit.Shift
	Counters []limit.Counter
	seq      uint64
}

// ShiftOf is what a step did.
func ShiftOf(step *events.Step) Shift {
	if !step.Task.Budgeted() {
		return Shift{}
	}
	was, is := &step.Was, &step.Is
	took := Shift{task.ShiftOf(was.State, was.Epoch, was.StartedAt, is.State, is.Epoch, step.Record.Fact.At), nil, step.Record.Seq}
	if took.Ended || took.Began {
		took.Counters, _ = step.Task.Counters() // of one that has none nobody can have admitted an attempt
	}
	return took
}

// Asked is until when a task that failed wants to be left alone; zero if it does not say.
func Asked(e task.AttemptFailed, at time.Time) time.Time {
	if e.RetryAfter <= 0 {
		return time.Time{}
	}
	return at.Add(e.RetryAfter.Std())
}
