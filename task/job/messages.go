package job

import (
	"slices"

	"millrace/task/value"
)

// Values of [Run.Messages]: what counts of what a process prints if it does not carry the key of
// the attempt, which only the process is told.
const (
	// MessagesOpen: every message counts.
	MessagesOpen = "open"
	// MessagesRecords: records and reports count.
	MessagesRecords = "records"
	// MessagesReports: status, progress, figures and entries of the log count. It is the default.
	MessagesReports = "reports"
	// MessagesKeyed: nothing counts.
	MessagesKeyed = "keyed"
	// MessagesOff: nothing counts, not even with the key: all output is text.
	MessagesOff = "off"
)

// MessageRules lists the values of [Run.Messages], from the laxest to the strictest.
var MessageRules = value.WordsOf[Run]("messages")

// Strictness returns the place in [MessageRules] of the stricter one of what a process's job says
// and what its worker allows at most; "" is the default of either.
func (r *Run) Strictness(worker string) int {
	rule := r.Messages
	if rule == "" {
		rule = MessagesReports
	}
	return max(slices.Index(MessageRules, rule), slices.Index(MessageRules, worker))
}
