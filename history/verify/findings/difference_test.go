package findings

import "testing"

// Details of older logs, in which planned runs are ticks, count as what is said today.
func TestWordsOfOlderLogs(t *testing.T) {
	for was, is := range map[string]string{
		"it waited for the tasks of earlier ticks":                 "it waited for the tasks of earlier planned runs",
		"overlap is cancel_old: a later tick takes its place":      "overlap is cancel_old: a later run takes its place",
		"overlap is queue: task 1 has not ended, and 2 ticks wait": "overlap is queue: task 1 has not ended, and 2 planned runs wait",
		"calendar: earlier ticks are left out by 12-31":            "calendar: earlier planned runs are left out by 12-31",
	} {
		if !alike(was, is, false) || alike(was, is+", too", false) {
			t.Errorf("%q is not %q", was, is)
		}
	}
}
