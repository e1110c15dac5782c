package job

import (
	"cmp"
	"time"

	"millrace/task/value"
)

// Timeout bounds the parts of a task's life. Zero means: the default named.
type Timeout struct {
	// Pending is how long the task may wait for its start, from its due time. When it passes, the
	// task ends abnormal/expired. Default: no bound while a node serves the queue, and while none
	// does the start deadline of the servers, if somebody has set one.
	Pending value.Duration `json:"pending,omitempty"`
	// Assign is how long an offered task may wait for a worker while nodes serve its queue and all of
	// them are busy: since it was last offered, since a node serves it, or since the end of a pause of
	// its queue. When it passes, the task ends abnormal/expired. It does not count while no node takes
	// the task, nor in a queue that has a window. Default: no bound.
	Assign value.Duration `json:"assign,omitempty"`
	// Run is how long one attempt may take. Default: no bound.
	Run value.Duration `json:"run,omitempty"`
	// Extend is how much longer an attempt may take in total if its program asks for more time
	// (EXTEND). Default: as long as Run.
	Extend value.Duration `json:"extend,omitempty"`
	// Total bounds the whole task, with all waits, attempts and retries. It begins at the due time,
	// or when only its queue and limits keep the task waiting, or at the last reopening. When it
	// passes, a waiting task ends as abnormal/timeout; a running attempt is stopped and fails with
	// class timeout; a task with children has all of them cancelled and ends as error/timeout.
	// Default: no bound.
	Total value.Duration `json:"total,omitempty"`
	// Idle is how long an attempt may be silent: without an output line or a report. When it
	// passes, the attempt fails with class timeout. Default: no bound.
	Idle value.Duration `json:"idle,omitempty"`
	// Heartbeat is how long a program may go without a protocol message other than LOG. A program
	// with nothing to report sends HEARTBEAT. When it passes, the attempt fails with class timeout.
	// Default: no bound.
	Heartbeat value.Duration `json:"heartbeat,omitempty"`
	// Stop is the grace between the polite request to stop and the forced end.
	// Default [DefaultStop].
	Stop value.Duration `json:"stop,omitempty"`
	// Setup bounds the setup lines together where they run. It counts within Run.
	// Default [DefaultSetup].
	Setup value.Duration `json:"setup,omitempty"`
}

// DefaultSetup applies to a task that sets no bound on its setup.
const DefaultSetup = 15 * time.Minute

// DefaultStop is the grace of a task that sets none.
const DefaultStop = 10 * time.Second

// Grace returns Stop or its default.
func (t Timeout) Grace() time.Duration {
	if t.Stop == 0 {
		return DefaultStop
	}
	return t.Stop.Std()
}

func (t Timeout) validate() error {
	return cmp.Or(
		value.NotBelowZero("timeout.pending", t.Pending), value.NotBelowZero("timeout.assign", t.Assign), value.NotBelowZero("timeout.run", t.Run), value.NotBelowZero("timeout.extend", t.Extend), value.NotBelowZero("timeout.total", t.Total),
		value.NotBelowZero("timeout.idle", t.Idle), value.NotBelowZero("timeout.heartbeat", t.Heartbeat), value.NotBelowZero("timeout.stop", t.Stop), value.NotBelowZero("timeout.setup", t.Setup))
}
