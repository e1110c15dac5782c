package value

import (
	"fmt"
	"slices"
)

// StateNames are those of the states of a task, in the order of its life. The first is that of a task of which
// nothing is known, and is written nowhere.
var StateNames = [...]string{
	"unknown", "scheduled", "held", "pending", "running", "retrying", "cancelling",
	"finished", "error", "cancelled", "abnormal",
}

// ValidState refuses what names no state that a task can be in. The error names those there are.
func ValidState(name string) error {
	if slices.Index(StateNames[:], name) > 0 {
		return nil
	}
	return fmt.Errorf("no task state is called %q; there are %v", name, StateNames[1:])
}
