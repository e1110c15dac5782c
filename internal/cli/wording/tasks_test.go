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

// A message of a graph names the failed task by its path, and says once what it said.
func TestFlat(t *testing.T) {
	for message, want := range map[string]string{
		"main exited with code 2": "main exited with code 2",
		"transform failed (error/exit: main exited with code 2: panic: x); 2 of 2 have ended: 1 finished, 1 error":                                                                             "transform failed: main exited with code 2: panic: x",
		"t failed (error/exit: no :)); 1 of 1 have ended: 1 error":                                                                                                                             "t failed: no :)",
		"t failed (abnormal/lost); 1 of 1 have ended: 1 abnormal":                                                                                                                              "t failed (abnormal/lost)",
		"transform failed (error/task: 5 failed (error/exit: main exited with code 2: panic: x); 6 of 6 have ended: 5 finished, 1 error); 11 of 11 have ended: 10 finished, 1 error":           "transform/5 failed: main exited with code 2: panic: x",
		"etl failed (error/task: load failed (error/task: eu failed (error/exit: no), us failed (error); 2 of 2 have ended: 2 error); 1 of 1 have ended: 1 error); 1 of 1 have ended: 1 error": "etl/load/eu failed (error/exit: no), us failed (error)",
		"a failed (error/task: b failed (error/task: it said so)); 1 of 1 have ended: 1 error":                                                                                                 "a/b failed: it said so",
		"the mount failed (error: 5); 3 of 4 have ended":                                                                                                                                       "the mount failed (error: 5)",
		"the parser failed (error/task: no": "the parser failed (error/task: no", "": "",
	} {
		if got := Flat(message); got != want {
			t.Errorf("%q becomes %q, want %q", message, got, want)
		}
	}
}
