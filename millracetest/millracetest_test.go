package millracetest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"millrace"
	"millrace/millracetest"
	"millrace/task"
)

type Reminder struct{ To string }

var remind = millrace.Func("remind", func(_ context.Context, in Reminder) (string, error) {
	return "dear " + in.To, nil
}, millrace.Retries(3))

func TestReminder(t *testing.T) {
	t.Parallel()
	millracetest.Run(t, func(t *testing.T, w *millracetest.World) {
		w.Work(remind)
		run, err := remind.Submit(t.Context(), w.App, Reminder{"ada"}, millrace.In(24*time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		millracetest.RequireSubmitted(w, remind, Reminder{"ada"})
		millracetest.RequireNotSubmitted(w, remind, Reminder{"bob"})
		w.Advance(23 * time.Hour)
		if is, err := run.Task(t.Context()); err != nil || is.State.String() != "scheduled" {
			t.Fatalf("it is %s: %v", is.State, err)
		}
		began := time.Now()
		w.RunUntilIdle()
		if took := time.Since(began); took < time.Hour || took > time.Hour+time.Second {
			t.Errorf("the clock moved by %v, want an hour", took)
		}
		if text, err := run.Result(t.Context()); err != nil || text != "dear ada" {
			t.Errorf("result %q, %v", text, err)
		}
	})
}

func TestFailAttempt(t *testing.T) {
	t.Parallel()
	millracetest.Run(t, func(t *testing.T, w *millracetest.World) {
		w.Work(remind)
		for n := range 3 {
			w.FailAttempt(remind, n+1, errors.New("no line"))
		}
		run, err := remind.Submit(t.Context(), w.App, Reminder{"ada"})
		if err != nil {
			t.Fatal(err)
		}
		w.RunUntilIdle()
		is, err := run.Task(t.Context())
		if err != nil || is.Attempt != 4 {
			t.Errorf("attempt %d, want 4: %v", is.Attempt, err)
		}
	})
}

func TestLoseNodes(t *testing.T) {
	t.Parallel()
	millracetest.Run(t, func(t *testing.T, w *millracetest.World) {
		slow := millrace.Action("slow", func(ctx context.Context, _ struct{}) error {
			select {
			case <-time.After(time.Minute):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		w.Work(slow)
		run, err := slow.Submit(t.Context(), w.App, struct{}{})
		if err != nil {
			t.Fatal(err)
		}
		w.Advance(10 * time.Second)
		w.LoseNodes()
		w.RunUntilIdle()
		is, err := run.Task(t.Context())
		if err != nil || is.Losses != 1 || is.State.String() != "finished" {
			t.Errorf("%s after %d losses: %v", is.State, is.Losses, err)
		}
	})
}

// A result that is not what its job says of it is no result: the attempt fails for good, and says where.
func TestReturns(t *testing.T) {
	t.Parallel()
	results := map[string]any{"as it says": map[string]int{"width": 3}, "another": map[string]string{"width": "wide"}, "less": map[string]int{"height": 3}, "none": nil}
	measure := millrace.Func("measure", func(_ context.Context, what string) (any, error) { return results[what], nil }, millrace.Retries(3),
		millrace.Fields("returns: {type: object, properties: {width: {type: integer}}, required: [width]}"))
	for what, says := range map[string]string{"as it says": "", "another": "width", "less": "width", "none": "null"} {
		millracetest.Run(t, func(t *testing.T, w *millracetest.World) {
			w.Work(measure)
			run, err := measure.Submit(t.Context(), w.App, what)
			if err != nil {
				t.Fatal(err)
			}
			w.RunUntilIdle()
			is, err := run.Task(t.Context())
			if err != nil || (is.State == task.Finished) != (says == "") || is.Attempt != 1 || !strings.Contains(is.Message, says) {
				t.Errorf("%s: it is %v after attempt %d: %s, %v", what, is.State, is.Attempt, is.Message, err)
			}
		})
	}
}
