package birth

import (
	"fmt"
	"strings"

	"millrace/task"
	"millrace/task/value"
)

// StoppedWithParent tells whether the task was cancelled because its parent was.
func StoppedWithParent(t *task.Task) bool {
	return t.State == task.Cancelled && strings.HasPrefix(t.Message, ParentCancelled)
}

// Spawns refuses further children of a task that has ended, or that is being stopped together with
// its children. The error wraps [task.ErrEnded].
func Spawns(t *task.Task) error {
	if t.State.Terminal() || Deserted(t.State, t.Reason) {
		return fmt.Errorf("%w: task %s is %s, and gets no more children", task.ErrEnded, t.ID, t.State)
	}
	return nil
}

// Deserted tells whether the children that a task has spawned are stopped when it reaches a state:
// when it is cancelled, by any actor, or its time is up.
func Deserted(s task.State, code string) bool {
	switch s {
	case task.Cancelling, task.Cancelled:
		return true
	case task.Error:
		return code == value.Timeout
	case task.Abnormal:
		return code == value.Timeout || code == value.Lost // lost: its cancel was never confirmed
	}
	return false
}
