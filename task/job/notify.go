package job

import (
	"fmt"
	"slices"
	"time"

	"millrace/task/value"
)

// NoticeQueue is the queue of notices, which servers work off, and NoticeHandler the handler that sends one.
const (
	NoticeQueue   = "millrace-notices"
	NoticeHandler = "millrace-notice"
)

// Notify says who is told of what becomes of a job's tasks.
type Notify struct {
	// On is of what. Default: failure and recovery.
	On []string `json:"on,omitempty" redact:"word" words:"failure,recovery,missed,overdue,waiting,breaker" alone:"text"`
	// To names targets that the operator of the servers has defined (setting notify).
	To []string `json:"to,omitempty" redact:"keep" alone:"text"`
	// Remind tells what waits for a person again, so often while nobody acts: at least 1m. Default: once.
	Remind value.Duration `json:"remind,omitempty"`
}

// NoticeKinds are the values of [Notify.On]: a task without a parent failed; the next one of its job finished;
// a planned run has no task; a deadline has passed; a task waits for an approval; the job's breaker is open.
var NoticeKinds = value.WordsOf[Notify]("on")

func validateNotify(all []Notify) error {
	for i := range all {
		n := &all[i]
		if len(n.To) == 0 {
			return fmt.Errorf("notify[%d].to is missing: name a target of the servers", i)
		}
		if n.Remind != 0 && n.Remind.Std() < time.Minute {
			return fmt.Errorf("notify[%d].remind is %v, want at least 1m", i, n.Remind)
		}
		for _, kind := range n.On {
			if !slices.Contains(NoticeKinds, kind) {
				return fmt.Errorf("notify[%d].on: %q is none of %s", i, kind, value.List(NoticeKinds))
			}
		}
		for _, to := range n.To {
			if err := value.ValidName("target", to); err != nil {
				return fmt.Errorf("notify[%d].to: %w", i, err)
			}
		}
	}
	return nil
}
