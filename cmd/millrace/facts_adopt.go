package main

import (
	"strconv"

	"millrace/task"
)

// adopted says how a new session of a node came to an attempt that an earlier one has left.
func adopted(e task.AttemptAdopted) string {
	process, gap := "", ""
	if e.PID > 0 {
		process = "process " + strconv.Itoa(e.PID)
	}
	if e.Gap > 0 {
		gap = "unattended for " + span(e.Gap.Std())
	}
	return words("the node's worker is back and goes on with it", process, gap)
}
