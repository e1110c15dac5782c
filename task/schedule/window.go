package schedule

import (
	"fmt"
	"time"

	"millrace/task"
	"millrace/task/value"
)

// lookAgain is after how long a task checks again for a calendar that is missing or unreadable.
const lookAgain = 10 * time.Minute

// soon is longer than any claim takes.
const soon = time.Hour

// Wait is until when a task waits for its window, and why.
type Wait struct {
	// Until is when the window opens. Detail says which one it is, in words.
	Until  time.Time `json:"until"`
	Detail string    `json:"detail"`
}

// Window tells whether tasks under a window may start at a time, by the definition of its calendar.
// A nil result means yes, until closes, which is zero if that is not soon. A window that opens
// within [task.TimerError] counts as open, because a timer may fire that early.
func Window(name string, is *task.Definition, at time.Time) (wait *Wait, closes time.Time) {
	if !is.Exists() {
		return &Wait{at.Add(lookAgain), fmt.Sprintf("its window is %s, and there is no such calendar", name)}, closes
	}
	c, err := ReadCalendar(name, is.Text)
	var hours *Hours
	if err == nil {
		hours, err = c.Hours()
	}
	if err != nil {
		return &Wait{at.Add(lookAgain), fmt.Sprintf("its window is %s, and that calendar cannot be read: %v", name, err)}, closes
	}
	opens, ever := hours.Opens(at)
	switch {
	case !ever:
		return &Wait{at.Add(year), fmt.Sprintf("outside of the window %s, which does not open within a year", name)}, closes
	case opens.Sub(at) <= task.TimerError:
		closes, _ = hours.turns(opens, soon)
		return nil, closes
	}
	return &Wait{opens, fmt.Sprintf("outside of the window %s, opens at %s", name, opens.In(hours.zone).Format("2006-01-02 15:04:05 -07:00"))}, closes
}

// Postpone returns the command that replaces a start, under an offer made for a turn.
func (w *Wait) Postpone(turn uint64) task.Postpone {
	return task.Postpone{After: turn, Reason: value.Window, Detail: w.Detail, Due: w.Until}
}
