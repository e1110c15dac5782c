package job

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

// Records is how long the records of a task are kept that finished, or ended otherwise, and Output what it has printed;
// each with what says so, by its name in a job file. Zero is that the job does not say.
func (k Keep) Records(finished bool) (time.Duration, string) {
	if finished {
		return k.Done.Std(), "keep.done"
	}
	return k.Failed.Std(), "keep.failed"
}

// Output is like [Keep.Records] for what a task has printed.
func (k Keep) Output(finished bool) (time.Duration, string) {
	d, name := k.Records(finished)
	if l := k.Logs.Std(); l > 0 && (d == 0 || l < d) {
		return l, "keep.logs"
	}
	return d, name
}
