package value

import (
	"fmt"
	"slices"
)

// StateNames are the names of task states, in the order of a task's life. The first is for a task
// without known facts and is never written.
var StateNames = [...]string{
	"unknown", "scheduled", "held", "pending", "running", "retrying", "cancelling",
	"finished", "error", "cancelled", "abnormal",
}

// ValidState refuses a name that is not a state of a task. The error lists the valid ones.
func ValidState(name string) error {
	if slices.Index(StateNames[:], name) > 0 {
		return nil
	}
	return fmt.Errorf("no task state is called %q; there are %s", name, List(StateNames[1:]))
}
