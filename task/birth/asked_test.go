package birth_test

import (
	"testing"

	"millrace/task"
	"millrace/task/birth"
)

// Children learn who asked for what befalls them, and why, however far below they are.
func TestAskedFor(t *testing.T) {
	of := func(actor, batch string, e task.Event) task.Recorded {
		return task.Recorded{Chain: true, Actor: actor, Corr: batch, Event: e}
	}
	for name, c := range map[string]struct {
		history []task.Recorded
		want    string
		batch   string
	}{
		"nobody":             {},
		"a retry":            {[]task.Recorded{of("ann", "", task.Reopened{Reason: "more disk"})}, " (ann: more disk)", ""},
		"without a reason":   {[]task.Recorded{of("ann", "", task.Reopened{})}, " (ann)", ""},
		"by a program":       {[]task.Recorded{of("", "", task.Reopened{Reason: "more disk"})}, " (more disk)", ""},
		"with many":          {[]task.Recorded{of("ann", "B1", task.CancelRequested{Reason: "wrong"})}, " (ann: wrong)", "B1"},
		"the latest":         {[]task.Recorded{of("ann", "B1", task.CancelConfirmed{Reason: "wrong"}), of("bob", "", task.Reopened{Reason: "right"})}, " (bob: right)", ""},
		"confirmed":          {[]task.Recorded{of("ann", "B1", task.CancelRequested{Reason: "wrong"}), of("w1", "", task.CancelConfirmed{Reason: "wrong", Epoch: 7})}, " (ann: wrong)", "B1"},
		"passed on":          {[]task.Recorded{of("scheduler", "B1", task.Reopened{Reason: "its parent has another life (ann: more disk)"})}, " (ann: more disk)", "B1"},
		"passed on, cancels": {[]task.Recorded{of("scheduler", "", task.CancelRequested{Reason: "its parent was cancelled (ann)"})}, " (ann)", ""},
		"by a rule":          {[]task.Recorded{of("scheduler", "", task.CancelRequested{Reason: "a newer task takes its place"})}, "", ""},
	} {
		asked := birth.AskedFor(c.history, "scheduler")
		if got := asked.Because(""); got != c.want || asked.Batch != c.batch {
			t.Errorf("%s: %q of batch %q, want %q of %q", name, got, asked.Batch, c.want, c.batch)
		}
	}
}
