package wording

import (
	"cmp"
	"fmt"
	"time"

	"millrace/internal/cli/term"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
)

// MatterColumns are the columns of what needs a person.
func MatterColumns(now time.Time) []term.Column[client.Matter] {
	type row = *client.Matter
	return []term.Column[client.Matter]{
		term.Tints("WHAT", 0, func(m row) term.Cell { return term.Tinted(MatterName(m), term.Yellow) }),
		ages("SINCE", 1, now, func(m row) time.Time { return m.Since }),
		term.Number("TASKS", 2, func(m row) string { return orDash(m.Tasks) }),
		term.Text("WHO", 3, func(m row) string { return m.Who }),
		term.Text("NEXT STEP", 0, func(m row) string { return Clocks(m.What) }),
	}
}

// matterNames are the words before the name of the thing that a matter is about.
var matterNames = map[string]string{
	client.MatterApproval: "approval of", client.MatterOverdue: "overdue", client.MatterNode: "node", client.MatterBreaker: "breaker of", client.MatterUnserved: "no worker for",
	client.MatterPaused: "paused queue", client.MatterSchedule: "schedule", client.MatterDead: "dead letters", client.MatterUnread: "messages", client.MatterHeldFront: "log", client.MatterNotice: "notice", client.MatterTrigger: "trigger of",
}

// MatterName names a matter in a few words.
func MatterName(m *client.Matter) string {
	name := m.ID
	if id, err := task.ParseID(m.ID); err == nil {
		name = cmp.Or(m.Of, "task") + " " + id.Short()
	}
	words := cmp.Or(matterNames[m.Kind], m.Kind)
	if name == "" || m.Kind == client.MatterHeldFront {
		return words
	}
	return words + " " + name
}

// Failures are failures of one cause each as rows beside matters.
func Failures(all []client.FailureGroup) (rows []client.Matter) {
	for i := range all {
		f := &all[i]
		why := f.Reason
		if f.Cause != "" {
			why += ": " + view.Flat(f.Cause)
		}
		rows = append(rows, client.Matter{Kind: "failed", ID: f.Job, Since: f.At, Tasks: f.Tasks, What: fmt.Sprintf("%s (`millrace task why %s`)", why, f.Last)})
	}
	return rows
}
