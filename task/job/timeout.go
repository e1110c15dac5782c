package job

import (
	"cmp"
	"time"

	"millrace/task/value"
)

// Timeout bounds the parts of a task's life. Zero means: the default named.
type Timeout struct {
	// Pending is how long the task may wait to be started, from its due time on.
	// When it passes, the task is abnormal/expired. Default: no bound as long as a node serves
	// the queue, and the start deadline of the settings while none does.
	Pending value.Duration `json:"pending,omitempty"`
	// Run is how long one attempt may take. Default: no bound.
	Run value.Duration `json:"run,omitempty"`
	// Extend is how much longer an attempt may take altogether if its program asks for
	// more time (EXTEND). Default: as long as Run once more.
	Extend value.Duration `json:"extend,omitempty"`
	// Total is how long the whole may take, all waits, attempts and retries included: from the due time
	// on, or from when nothing but its queue and limits keeps it, or from the last reopening. When it passes, what waits ends as
	// abnormal/timeout, an attempt is stopped and fails with class timeout, and of a task with
	// children all are cancelled, and it ends as error/timeout. Default: no bound.
	Total value.Duration `json:"total,omitempty"`
	// Idle is how long an attempt may be silent: print no line and report nothing. When it
	// passes, the attempt fails with class timeout. Default: no bound.
	Idle value.Duration `json:"idle,omitempty"`
	// Heartbeat is how long a program may send no message of the protocol other than LOG;
	// HEARTBEAT is the one that says nothing else. When it passes, the attempt fails
	// with class timeout. Default: no bound.
	Heartbeat value.Duration `json:"heartbeat,omitempty"`
	// Stop is the grace between the polite request to stop and the forced end.
	// Default [DefaultStop].
	Stop value.Duration `json:"stop,omitempty"`
	// Setup is how long the lines of setup may take together where they run. It counts within Run.
	// Default [DefaultSetup].
	Setup value.Duration `json:"setup,omitempty"`
}

// DefaultSetup is how long the setup of a task may take that says nothing about it.
const DefaultSetup = 15 * time.Minute

// DefaultStop is the grace of a task that names none.
const DefaultStop = 10 * time.Second

// Grace is Stop or its default.
func (t Timeout) Grace() time.Duration {
	if t.Stop == 0 {
		return DefaultStop
	}
	return t.Stop.Std()
}

func (t Timeout) validate() error {
	return cmp.Or(
		value.NotBelowZero("timeout.pending", t.Pending), value.NotBelowZero("timeout.run", t.Run), value.NotBelowZero("timeout.extend", t.Extend), value.NotBelowZero("timeout.total", t.Total),
		value.NotBelowZero("timeout.idle", t.Idle), value.NotBelowZero("timeout.heartbeat", t.Heartbeat), value.NotBelowZero("timeout.stop", t.Stop), value.NotBelowZero("timeout.setup", t.Setup))
}
