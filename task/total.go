package task

import (
	"fmt"
	"time"

	"millrace/task/job"
	"millrace/task/reason"
	"millrace/task/value"
)

// boundWhole sets when the task has taken as long as it may altogether, counted from a time, unless it
// waits for others or is bound already.
func (w *Work) boundWhole(from time.Time) {
	if w.Spec == nil || w.Spec.Timeout.Total <= 0 || w.waitsForOthers() || !w.EndBy.IsZero() {
		return
	}
	w.EndBy = from.Add(w.Spec.Timeout.Total.Std())
}

// tooLong tells whether a time is beyond what the task may take altogether.
func (w *Work) tooLong(at time.Time) bool { return !w.EndBy.IsZero() && !at.Before(w.EndBy) }

// totalWords say that it is.
func (w *Work) totalWords() string {
	return fmt.Sprintf("total timeout: not done by %s, %v after it might begin", value.Clock(w.EndBy), w.Spec.Timeout.Total)
}

// withinTotal puts the end of what a task may take altogether in the place of a duty that
// would come later. Of an attempt that runs, its run timeout knows.
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

// ranOut tells whether a parent was cancelled because its time was up.
func (t *Task) ranOut() bool { return t.State == Cancelling && t.tooLong(t.Since) }

// Otherwise is the task as it would be now, had it been born with another spec: the bounds that its birth has set are moved by
// what the timeouts differ. All else is as it was.
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
