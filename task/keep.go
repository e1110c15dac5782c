package task

import (
	"fmt"
	"time"

	"millrace/task/value"
)

// Keep says how long what a task has printed and produced is kept after it has ended. Zero means:
// as the settings of the servers say.
type Keep struct {
	// Done and Failed are for how long if it finished, and if it ended otherwise.
	Done   value.Duration `json:"done,omitempty"`
	Failed value.Duration `json:"failed,omitempty"`
	// Logs bounds that for what it has printed alone, however it ended.
	Logs value.Duration `json:"logs,omitempty"`
}

func (k Keep) validate() error {
	for _, f := range []struct {
		name string
		d    value.Duration
	}{{"done", k.Done}, {"failed", k.Failed}, {"logs", k.Logs}} {
		if f.d < 0 {
			return fmt.Errorf("keep.%s is below zero", f.name)
		}
	}
	return nil
}

// Records is how long the records of a task that has ended so are kept, and Output what it has printed;
// each with what says so, by its name in a job file. Zero is that the job does not say.
func (k Keep) Records(state State) (time.Duration, string) {
	if state == Finished {
		return k.Done.Std(), "keep.done"
	}
	return k.Failed.Std(), "keep.failed"
}

// Output is like [Keep.Records] for what a task has printed.
func (k Keep) Output(state State) (time.Duration, string) {
	d, name := k.Records(state)
	if l := k.Logs.Std(); l > 0 && (d == 0 || l < d) {
		return l, "keep.logs"
	}
	return d, name
}

// Kept is what the task's spec says of it.
func (t *Task) Kept() Keep {
	if t.Spec == nil {
		return Keep{}
	}
	return t.Spec.Keep
}
