package millrace

import (
	"errors"
	"fmt"
	"time"

	"millrace/events"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/queue"
	"millrace/worker"
)

// Errors, for errors.Is.
var (
	// ErrNoServer: no server can be reached.
	ErrNoServer = errors.New("no server")
	// ErrInvalid: a function, an option or a parameter is wrong. The text says which field, and
	// what it may be.
	ErrInvalid = client.ErrInvalid
	// ErrOther: the id of a submission belongs to a task that does something else.
	ErrOther = client.ErrOther
	// ErrTooLarge: parameters, a result or a record is larger than a message may be.
	ErrTooLarge = events.ErrTooLarge
	// ErrFull: the queue holds as many waiting tasks as it may.
	ErrFull = queue.ErrFull
	// ErrUnknown: there is no such task.
	ErrUnknown = task.ErrUnknown
	// ErrEnded: the task has ended, and what was asked for is for open ones.
	ErrEnded = task.ErrEnded
	// ErrNotHeld: the task does not wait for a signal: not yet, or no longer.
	ErrNotHeld = task.ErrNotHeld
	// ErrFailed: a task has ended without success. It is always a [*Failure].
	ErrFailed = errors.New("the task failed")
	// ErrCancelled: a task was cancelled. It is the error of its [Run.Result], and the cause of the
	// context of its function ([context.Cause]).
	ErrCancelled = worker.ErrCancelled
	// ErrNotRunning: what was asked for is for functions, and ctx belongs to none.
	ErrNotRunning = errors.New("this context belongs to no running task")
)

// Taken says that another task has the unique key of a submission whose options say
// `unique: {on_conflict: fail}`.
type Taken = events.Taken

// Failure is the end of a task without success. It wraps [ErrFailed], or [ErrCancelled] if the task
// was cancelled.
type Failure struct {
	// Task is as it ended: Reason is a code, such as task, timeout or expired, and Message has the
	// words of the function's last error.
	Task Task
}

func (f *Failure) Error() string {
	t := &f.Task
	text := fmt.Sprintf("task %s of %s is %s", t.ID, t.Spec.Text(), t.State)
	if t.Reason != "" {
		text += " (" + t.Reason + ")"
	}
	if t.Attempt > 1 {
		text += fmt.Sprintf(" after attempt %d", t.Attempt)
	}
	if t.Message != "" {
		text += ": " + t.Message
	}
	return text
}

// Unwrap returns [ErrCancelled] or [ErrFailed].
func (f *Failure) Unwrap() error {
	if f.Task.State == task.Cancelled {
		return ErrCancelled
	}
	return ErrFailed
}

// Final marks a function's error as permanent: the task gets no further attempt.
func Final(err error) error { return worker.Final(err) }

// RetryAfter asks that the next attempt, if the options allow one, start after d instead of the
// usual delay: for example, after the pause that a server asked for.
func RetryAfter(err error, d time.Duration) error { return worker.RetryAfter(err, d) }

// Snooze is an error by which a function gives its task back, to be started again after d: for
// example because what it needs is not there yet. That is no failure and takes no retry.
func Snooze(d time.Duration) error { return worker.Snooze(d) }

// wrong marks an error as [ErrInvalid], beside the name of a function.
func wrong(name string, err error) error {
	return fmt.Errorf("millrace: function %s: %w", name, client.Wrong(err))
}
