package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"millrace"
	"millrace/millracetest"
)

// The reminder goes out after three days, and survives that its first attempt fails and the second one's node is lost.
// Here that takes milliseconds.
func TestReminder(t *testing.T) {
	t.Parallel()
	millracetest.Run(t, func(t *testing.T, w *millracetest.World) {
		w.Work(mail)
		w.FailAttempt(mail, 1, errors.New("the mail server is away"))
		run := must(remind(t.Context(), w.App, "4711"))(t)
		millracetest.RequireSubmitted(w, mail, Letter{Order: "4711", Text: "How do you like it?"})
		w.Advance(71 * time.Hour)
		if is := must(run.Task(t.Context()))(t); is.Attempt > 0 {
			t.Errorf("attempt %d an hour too early", is.Attempt)
		}
		w.LoseNodes()
		w.RunUntilIdle()
		if id := must(run.Result(t.Context()))(t); id != "message of order 4711" {
			t.Errorf("it returned %q", id)
		}
	})
}

// An order is charged, and its letter sent, wherever the worker dies.
func TestOrderSurvives(t *testing.T) {
	t.Parallel()
	millracetest.CrashEverywhere(t, func(t *testing.T, w *millracetest.World) string {
		w.Work(ship, mail)
		run := must(ship.Submit(t.Context(), w.App, "4711"))(t)
		w.RunUntilIdle()
		return must(run.Result(t.Context()))(t)
	})
}

// What the function does today with the tasks of last week is what it did then. CI fetches the file from the server
// (`millrace events export`) in place of this one, which the test writes itself.
func TestLastWeek(t *testing.T) {
	t.Parallel()
	week := filepath.Join(t.TempDir(), "week.jsonl")
	millracetest.Run(t, func(t *testing.T, w *millracetest.World) {
		w.Work(mail)
		for _, order := range []string{"4711", "", "4712"} {
			must(mail.Submit(t.Context(), w.App, Letter{Order: order}, millrace.In(time.Hour)))(t)
		}
		w.RunUntilIdle()
		file := must(os.Create(week))(t)
		if err := errors.Join(w.Export(file), file.Close()); err != nil {
			t.Fatal(err)
		}
	})
	if n := millracetest.Replay(t, mail, week); n != 3 {
		t.Errorf("%d tasks, want 3", n)
	}
}
