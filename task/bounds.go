package task

import (
	"fmt"
	"time"

	"millrace/task/job"
	"millrace/task/value"
)

// RunUntil is when the run timeout of the current attempt passes, or timeout.total if that is
// earlier; zero if there is neither.
func (t *Task) RunUntil() time.Time {
	run := t.runTimeout()
	if run <= 0 {
		return t.EndBy
	}
	until := value.Later(t.StartedAt.Add(run), t.Extended)
	if t.TooLong(until) {
		return t.EndBy
	}
	return until
}

// extend moves the run timeout within its bound. It returns no fact if the timeout is late enough
// already.
func extend(t *Task, c Extend) Event {
	now := t.RunUntil()
	if now.IsZero() || t.State != Running || t.runTimeout() <= 0 {
		return nil // timeout.total never moves
	}
	more := t.Spec.Timeout.Extend.Std()
	if more == 0 {
		more = t.runTimeout()
	}
	until := c.Until
	if last := t.StartedAt.Add(t.runTimeout() + more); until.After(last) {
		until = last
	}
	if t.TooLong(until) {
		until = t.EndBy
	}
	if !until.After(now) {
		return nil
	}
	return AttemptExtended{Attempt: t.Attempt, Epoch: c.Epoch, Until: until.Truncate(time.Microsecond)}
}

func (t *Task) runTimeout() time.Duration {
	if t.Spec == nil {
		return 0
	}
	return t.Spec.Timeout.Run.Std()
}

// BoundWhole sets the total deadline, counted from a time, unless the task waits for others or has
// a deadline already.
func (w *Work) BoundWhole(from time.Time) {
	if w.Spec == nil || w.Spec.Timeout.Total <= 0 || w.WaitsForOthers() || !w.EndBy.IsZero() {
		return
	}
	w.EndBy = from.Add(w.Spec.Timeout.Total.Std())
}

// TooLong tells whether a time is at or after the task's total deadline.
func (w *Work) TooLong(at time.Time) bool { return !w.EndBy.IsZero() && !at.Before(w.EndBy) }

// TotalWords describes that deadline as the reason of an end.
func (w *Work) TotalWords() string {
	return fmt.Sprintf("total timeout: not done by %s, %v after it might begin", value.Clock(w.EndBy), w.Spec.Timeout.Total)
}

// Otherwise returns the task as it would be with another spec since its birth. It moves the bounds
// set at birth by the difference between the timeouts. All else stays.
func (t Task) Otherwise(spec *job.Spec) Task {
	if t.Spec == nil || spec == nil {
		return t
	}
	from, was, is := value.Later(t.SubmittedAt, t.Due), t.Spec.Timeout, spec.Timeout
	t.StartBy = otherBound(t.StartBy, from, was.Pending, is.Pending)
	t.EndBy = otherBound(t.EndBy, from, was.Total, is.Total)
	t.Spec = spec
	return t
}

func otherBound(by, from time.Time, was, is value.Duration) time.Time {
	switch {
	case was == is:
		return by
	case is == 0:
		return time.Time{}
	case by.IsZero():
		return from.Add(is.Std())
	}
	return by.Add(is.Std() - was.Std())
}
