package harness

import (
	"time"

	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/value"
)

// FailsOnce is a task whose first attempt fails and whose second, after the pause, succeeds.
func FailsOnce(pause time.Duration) birth.Submission {
	return birth.Submission{Spec: &job.Spec{
		Run:   &job.Run{Shell: `[ "$MILLRACE_ATTEMPT" != 1 ]`},
		Retry: job.Retry{Max: 1, Min: value.Duration(pause)},
	}}
}

// StayUntilGo is a task whose first attempt waits for a file.
const StayUntilGo = `[ "$MILLRACE_ATTEMPT" != 1 ] || until [ -e go ]; do sleep 0.2; done`

// FirstAttemptStays is a task whose first attempt starts a process, which starts another, and
// stays. The second attempt ends at once.
const FirstAttemptStays = `
if [ "$MILLRACE_ATTEMPT" != 1 ]; then echo again; exit 0; fi
sh -c 'sleep 600 & wait' &
echo started
wait`
