package worker_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/worker"
)

// The node of the last failure leaves the next attempt to another one, but not for ever.
func TestAvoidNode(t *testing.T) {
	for _, c := range []struct {
		name string
		// others is whether there is another node, and busy whether its only slot is taken.
		others, busy bool
		want         string
		after        time.Duration // of the second attempt, since it was due
	}{
		{"another one is free", true, false, "b", time.Second},
		{"another one is full", true, true, "a", task.AvoidWait + 2*time.Second},
		{"there is no other", false, false, "a", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				handlers := map[string]worker.Handler{
					"h": func(_ context.Context, t task.Task) error {
						if t.Attempt == 1 {
							return errBroken
						}
						return nil
					},
					"slow": func(context.Context, task.Task) error { wait(time.Hour); return nil },
				}
				a := w.start(worker.Config{Node: "a"}, handlers)
				id := w.submit(task.Spec{Retry: task.Retry{Max: 1, Min: task.Duration(time.Minute), AvoidNode: true}})
				w.wantState(w.task(id), task.Retrying, task.ReasonTask)
				if c.others {
					if c.busy { // b gets it, for a is told to start nothing meanwhile
						a.stop()
						pass(time.Second)
					}
					w.start(worker.Config{Node: "b"}, handlers)
				}
				if c.busy {
					w.submit(task.Spec{Handler: "slow"})
					a = w.start(worker.Config{Node: "a"}, handlers)
				}
				before := get(a.store, &a.deliveries)
				got := w.ended(id)
				due := w.task(id).StartedAt.Sub(event[task.AttemptFailed](w, w.facts(id)).Retry.Due)
				if got.Node != c.want || due > c.after || c.busy && due < task.AvoidWait {
					w.Errorf("attempt 2 began on %s, %v after it was due; want %s within %v", got.Node, due, c.want, c.after)
				}
				if n := get(a.store, &a.deliveries) - before; n > 10 {
					w.Errorf("the offer went to the node of the failure %d times; want at most 10", n)
				}
			})
		})
	}
}

// A handler says when it should be tried again.
func TestRetryAfter(t *testing.T) {
	inBubble(t, func(w *world) {
		w.start(worker.Config{}, map[string]worker.Handler{"h": func(_ context.Context, t task.Task) error {
			if t.Attempt == 1 {
				return fmt.Errorf("page 7: %w", worker.RetryAfter(errBroken, 42*time.Second))
			}
			return nil
		}})
		id := w.submit(task.Spec{Retry: task.Retry{Max: 1}})
		began := time.Now()
		w.wantState(w.ended(id), task.Finished, "")
		if took := w.task(id).StartedAt.Sub(began); took != 42*time.Second {
			w.Errorf("attempt 2 began %v after the first failed; want 42s", took)
		}
		failed := event[task.AttemptFailed](w, w.facts(id))
		if failed.Reason != "the task asked for a pause of 42s" || failed.Message != "page 7: "+errBroken.Error() {
			w.Errorf("failed with %q, %q", failed.Reason, failed.Message)
		}
		w.wantFacts(id, events.AttemptStarted, events.AttemptFailed, events.TaskQueued, events.AttemptStarted, events.AttemptFinished)
	})
	if worker.RetryAfter(nil, time.Second) != nil {
		t.Error("no error became one")
	}
}
