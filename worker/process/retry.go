package process

import (
	"time"

	"millrace/ipc"
	"millrace/task"
)

// retryAfter is the pause that a program asks for before its next attempt; 0 if
// it asks for none, or for what is no duration above zero.
func retryAfter(f *ipc.Failure) time.Duration {
	var d task.Duration
	if f.RetryAfter == "" || d.UnmarshalText([]byte(f.RetryAfter)) != nil {
		return 0
	}
	return max(d.Std(), 0)
}
