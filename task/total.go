package task

import (
	"fmt"
	"time"

	"millrace/task/job"
	"millrace/task/reason"
	"millrace/task/value"
)

// boundWhole sets the total deadline, counted from a time, unless the task waits for others or has
// a deadline already.
func (w *Work) boundWhole(from time.Time) {
	if w.Spec == nil || w.Spec.Timeout.Total <= 0 || w.waitsForOthers() || !w.EndBy.IsZero() {
		return
	}
	w.EndBy = from.Add(w.Spec.Timeout.Total.Std())
}

// tooLong tells whether a time is at or after the task's total deadline.
func (w *Work) tooLong(at time.Time) bool { return !w.EndBy.IsZero() && !at.Before(w.EndBy) }

// totalWords describes that deadline as the reason of an end.
func (w *Work) totalWords() string {
	return fmt.Sprintf("total timeout: not done by %s, %v after it might begin", value.Clock(w.EndBy), w.Spec.Timeout.Total)
}

// withinTotal replaces a duty whose deadline is later than the total deadline. The duty of a
// running attempt has it already, in its run timeout.
func (t *Task) withinTotal(d Duty) Duty {
	if t.EndBy.IsZero() || t.Spec == nil || !d.Look && !d.By.IsZero() && !d.By.After(t.EndBy) {
		return d
	}
	switch {
	case t.Waiting():
		d.Else, d.Command = "it ends as abnormal/timeout: total timeout", Expire{Reason: reason.Timeout, Detail: t.totalWords()}
	case t.State == Running && t.Epoch == 0:
		d.Else, d.Command = "its children are cancelled, and it ends as error/timeout", Cancel{Reason: t.totalWords()}
	default:
		return d
	}
	d.By, d.Look = t.EndBy, false
	return d
}

// ranOut tells whether a parent was cancelled because of its total timeout.
func (t *Task) ranOut() bool { return t.State == Cancelling && t.tooLong(t.Since) }

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
