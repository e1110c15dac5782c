package place

import (
	"time"

	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/value"
)

// FailsOnce is a task of which the second attempt, some time after the first, succeeds.
func FailsOnce(pause time.Duration) birth.Submission {
	return birth.Submission{Spec: &job.Spec{
		Run:   &job.Run{Shell: `[ "$MILLRACE_ATTEMPT" != 1 ]`},
		Retry: job.Retry{Max: 1, Min: value.Duration(pause)},
	}}
}

// StayUntilGo is a task whose first attempt waits for a file.
const StayUntilGo = `[ "$MILLRACE_ATTEMPT" != 1 ] || until [ -e go ]; do sleep 0.05; done`

// FirstAttemptStays is a task of which the first attempt starts a process that
// starts another, and stays; the second one ends at once.
const FirstAttemptStays = `
if [ "$MILLRACE_ATTEMPT" != 1 ]; then echo again; exit 0; fi
sh -c 'sleep 600 & wait' &
echo started
wait`
