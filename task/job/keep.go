package job

import (
	"cmp"
	"fmt"
	"time"

	"millrace/task/value"
)

// Keep says how long a task is kept after it has ended, and its output and records before that. Zero
// means the default of the server's settings.
type Keep struct {
	// Finished, Error, Cancelled and Abnormal apply to a task that ended in this state, All to one whose
	// state has no time of its own. After that the log may forget the task, with all that it has left.
	Finished  value.Duration `json:"finished,omitempty"`
	Error     value.Duration `json:"error,omitempty"`
	Cancelled value.Duration `json:"cancelled,omitempty"`
	Abnormal  value.Duration `json:"abnormal,omitempty"`
	All       value.Duration `json:"all,omitempty" short:"text"`
	// Done and Failed bound the time for output and records alone: of a task that finished, and of one
	// that ended otherwise.
	Done   value.Duration `json:"done,omitempty"`
	Failed value.Duration `json:"failed,omitempty"`
	// Logs bounds the time for output, after any end.
	Logs value.Duration `json:"logs,omitempty"`
}

func (k Keep) validate() error {
	for _, f := range []struct {
		name string
		d    value.Duration
	}{
		{"finished", k.Finished}, {"error", k.Error}, {"cancelled", k.Cancelled}, {"abnormal", k.Abnormal}, {"all", k.All},
		{"done", k.Done}, {"failed", k.Failed}, {"logs", k.Logs},
	} {
		if f.d < 0 {
			return fmt.Errorf("keep.%s is below zero", f.name)
		}
	}
	return nil
}

// Task returns how long a task that has ended in a state, such as "error", is kept; 0 if the job does
// not say.
func (k Keep) Task(state string) time.Duration {
	own := map[string]value.Duration{"finished": k.Finished, "error": k.Error, "cancelled": k.Cancelled, "abnormal": k.Abnormal}[state]
	return cmp.Or(own, k.All).Std()
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
