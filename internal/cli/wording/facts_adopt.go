package wording

import (
	"strconv"

	"millrace/task"
)

// adopted describes how a new session of a node took over an attempt that an earlier one has left.
func adopted(e task.AttemptAdopted) string {
	process, gap := "", ""
	if e.PID > 0 {
		process = "process " + strconv.Itoa(e.PID)
	}
	if e.Gap > 0 {
		gap = "unattended for " + Span(e.Gap.Std())
	}
	return Words("the node's worker is back and goes on with it", process, gap)
}
