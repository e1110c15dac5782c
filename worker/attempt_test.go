package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/value"
	"millrace/worker"
)

func TestHandlerRunsAndItsResultIsRecorded(t *testing.T) {
	inBubble(t, func(w *world) {
		a := w.start(worker.Config{}, map[string]worker.Handler{"h": func(ctx context.Context, _ task.Task) error {
			worker.FromContext(ctx).Output.SetResult(json.RawMessage(`{"n":1}`))
			return nil
		}})

		id := w.submit(job.Spec{})

		got := w.ended(id)
		w.wantState(got, task.Finished, "")
		if string(got.Result) != `{"n":1}` || got.Node != "a" || got.Attempt != 1 {
			w.Errorf("result %s of attempt %d on %s, want that of attempt 1 on a", got.Result, got.Attempt, got.Node)
		}
		pass(3 * ackWait) // an offer that was not acknowledged would come again
		w.wantFacts(id, events.AttemptStarted, events.AttemptFinished)
		if deliveries, acks := get(a.store, &a.deliveries), get(a.store, &a.acks); deliveries != 1 || acks != 1 {
			w.Errorf("%d deliveries, %d acknowledged, want 1 and 1", deliveries, acks)
		}
	})
}

func TestFailedAttemptIsFollowedByAnother(t *testing.T) {
	inBubble(t, func(w *world) {
		w.start(worker.Config{}, map[string]worker.Handler{"h": func(_ context.Context, t task.Task) error {
			if t.Attempt == 1 {
				return errors.New("not yet")
			}
			return nil
		}})

		id := w.submit(job.Spec{Retry: job.Retry{Max: 1, Min: value.Duration(5 * time.Second)}})

		due := time.Now().Add(5 * time.Second)
		w.wantState(w.task(id), task.Retrying, value.Task)
		w.wantState(w.ended(id), task.Finished, "")
		w.wantFacts(id, events.AttemptStarted, events.AttemptFailed, events.TaskDue, events.AttemptStarted, events.AttemptFinished)
		failed := event[task.AttemptFailed](w, w.facts(id))
		if failed.Class != value.Task || failed.Message != "not yet" {
			w.Errorf("failed as %s: %s", failed.Class, failed.Message)
		}
		if failed.Retry == nil || failed.Retry.Attempt != 2 || !failed.Retry.Due.Equal(due) {
			w.Errorf("the plan is %+v, want attempt 2 at %v", failed.Retry, due)
		}
		if started := w.task(id).StartedAt; !started.Equal(due) {
			w.Errorf("attempt 2 started at %v, want %v", started, due)
		}
	})
}

func TestFailures(t *testing.T) {
	retry := job.Retry{Max: 1}
	for _, c := range []struct {
		name    string
		spec    job.Spec
		handler worker.Handler
		class   string
		message string // part of it
		// attempts is how often it is tried.
		attempts int
	}{
		{"error", job.Spec{}, func(context.Context, task.Task) error { return errBroken }, value.Task, errBroken.Error(), 1},
		{"error, with a retry", job.Spec{Retry: retry}, func(context.Context, task.Task) error { return errBroken }, value.Task, errBroken.Error(), 2},
		{"final", job.Spec{Retry: retry}, func(context.Context, task.Task) error { return worker.Final(errBroken) }, value.Task, errBroken.Error(), 1},
		{"final, wrapped", job.Spec{Retry: retry}, func(context.Context, task.Task) error { return fmt.Errorf("no: %w", worker.Final(errBroken)) }, value.Task, "no: " + errBroken.Error(), 1},
		{"panic", job.Spec{}, func(context.Context, task.Task) error { panic("oh no") }, value.Task, "oh no", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				w.start(worker.Config{}, map[string]worker.Handler{"h": c.handler})

				id := w.submit(c.spec)

				got := w.ended(id)
				w.wantState(got, task.Error, c.class)
				if !strings.Contains(got.Message, c.message) {
					w.Errorf("the message is %q, want %q in it", got.Message, c.message)
				}
				if got.Attempt != c.attempts {
					w.Errorf("%d attempts, want %d", got.Attempt, c.attempts)
				}
			})
		})
	}
}

func TestFinalOfNothingIsNothing(t *testing.T) {
	if err := worker.Final(nil); err != nil {
		t.Errorf("Final(nil) is %v", err)
	}
	if err := worker.Final(errBroken); !errors.Is(err, errBroken) {
		t.Errorf("Final hides the error: %v", err)
	}
}

func TestAPanicLeavesItsStackInTheOutput(t *testing.T) {
	inBubble(t, func(w *world) {
		a := w.start(worker.Config{}, map[string]worker.Handler{"h": func(context.Context, task.Task) error { panic("oh no") }})

		w.ended(w.submit(job.Spec{}))

		lines, err := a.lines()
		if err != nil {
			w.Error(err)
		}
		if all := strings.Join(lines, "\n"); !strings.Contains(all, "panic: oh no") || !strings.Contains(all, "attempt_test.go") {
			w.Errorf("the output is %q, want the panic and where it was", all)
		}
	})
}

func TestRunTimeout(t *testing.T) {
	inBubble(t, func(w *world) {
		var cause error
		w.start(worker.Config{}, map[string]worker.Handler{"h": func(ctx context.Context, _ task.Task) error {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return ctx.Err()
		}})

		began := time.Now()
		id := w.submit(job.Spec{Timeout: job.Timeout{Run: value.Duration(3 * time.Second)}})

		got := w.ended(id)
		w.wantState(got, task.Error, value.Timeout)
		if took := got.EndedAt.Sub(began); took != 3*time.Second {
			w.Errorf("it ran for %v, want 3s", took)
		}
		if !errors.Is(cause, worker.ErrTimeout) {
			w.Errorf("the handler was stopped because of %v, want %v", cause, worker.ErrTimeout)
		}
	})
}

// A result that is there counts, even if it came a moment after the stop.
func TestSuccessAfterTheTimeoutIsSuccess(t *testing.T) {
	inBubble(t, func(w *world) {
		w.start(worker.Config{}, map[string]worker.Handler{"h": func(context.Context, task.Task) error { wait(5 * time.Second); return nil }})

		id := w.submit(job.Spec{Timeout: job.Timeout{Run: value.Duration(3 * time.Second)}})

		w.wantState(w.ended(id), task.Finished, "")
	})
}
