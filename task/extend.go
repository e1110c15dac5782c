package task

import (
	"time"

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
