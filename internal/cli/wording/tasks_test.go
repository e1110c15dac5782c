package wording

import (
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/value"
)

// Of a task that a person has cancelled it is said who did, and why.
func TestSaid(t *testing.T) {
	of := func(s task.State, message, by, why string) *task.Task {
		return &task.Task{State: s, Reason: value.User, Message: message, CancelAsked: &task.CancelAsked{By: by, Reason: why}}
	}
	for _, c := range []struct {
		is         *task.Task
		said, code string
	}{
		{of(task.Cancelled, "wrong file", "ann", "wrong file"), "cancelled by ann: wrong file", ""},
		{of(task.Cancelled, "", "ann", ""), "cancelled by ann", ""},
		{of(task.Cancelling, "x", "", "x"), "cancelled: x", ""},
		{of(task.Cancelled, "2 of 2 have ended", "ann", "x"), "cancelled by ann: x; 2 of 2 have ended", ""},
		{of(task.Cancelled, "its parent was cancelled (ann: x)", events.PartScheduler, "y"), "its parent was cancelled (ann: x)", value.User},
		{of(task.Finished, "", "ann", "x"), "", value.User},
	} {
		if said, code := Said(c.is), Code(c.is); said != c.said || code != c.code {
			t.Errorf("%+v: it is said %q beside %q, want %q and %q", c.is, said, code, c.said, c.code)
		}
	}
}

// Times in the texts of Millrace are told on this machine's clock, those in the words of a program stay.
func TestClocks(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	stamp := at.Format(time.RFC3339)
	if got, want := Clocks("waiting since "+stamp+", 2026-99-01T00:00:00Z"), "waiting since "+Clock(at)+", 2026-99-01T00:00:00Z"; got != want {
		t.Errorf("it is %q, want %q", got, want)
	}
	for state, want := range map[task.State]string{task.Abnormal: Clock(at), task.Error: stamp} {
		if got := SaidHere(&task.Task{State: state, Message: stamp}); got != want {
			t.Errorf("%v: it is %q, want %q", state, got, want)
		}
	}
}
