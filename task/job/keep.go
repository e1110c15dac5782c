package job

import (
	"fmt"
	"time"

	"millrace/task/value"
)

// Keep says how long a task's output and results are kept after it has ended. Zero means the
// default of the server's settings.
type Keep struct {
	// Done applies to a task that finished, Failed to any other end.
	Done   value.Duration `json:"done,omitempty"`
	Failed value.Duration `json:"failed,omitempty"`
	// Logs bounds this time for output alone, after any end.
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

// Records returns how long the records of a task are kept, by whether it finished, and the name of
// the field in a job file that says so. Zero means that the job sets nothing.
func (k Keep) Records(finished bool) (time.Duration, string) {
	if finished {
		return k.Done.Std(), "keep.done"
	}
	return k.Failed.Std(), "keep.failed"
}

// Output is like [Keep.Records] for the output of a task.
func (k Keep) Output(finished bool) (time.Duration, string) {
	d, name := k.Records(finished)
	if l := k.Logs.Std(); l > 0 && (d == 0 || l < d) {
		return l, "keep.logs"
	}
	return d, name
}
