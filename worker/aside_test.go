package worker_test

import (
	"context"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/job"
	"millrace/worker"
)

// A node that gave a task back because it could not read the checkpoint leaves it to other nodes,
// longer each time. None of that counts against the task, and another node runs it soon.
func TestWhatCannotBeResumedDoesNotGoRound(t *testing.T) {
	failsOnce := map[string]worker.Handler{"h": func(_ context.Context, t task.Task) error {
		if t.Attempt == 1 {
			return errBroken
		}
		return nil
	}}
	inBubble(t, func(w *world) {
		k := w.start(quick, failsOnce)
		set(k.store, &k.unread, errBroken)
		id := w.submit(job.Spec{Retry: job.Retry{Max: 1}})
		pass(time.Minute)
		released := 0
		for _, kind := range types(w.facts(id)) {
			if kind == events.AttemptReleased {
				released++
			}
		}
		if now := w.task(id); released < 5 || released > 9 || now.Failures != 1 || now.Losses != 0 {
			t.Errorf("in a minute it was given back %d times, with %d failures and %d losses", released, now.Failures, now.Losses)
		}
		cfg := quick
		cfg.Node = "b"
		w.start(cfg, failsOnce)
		began := time.Now()
		w.wantState(w.ended(id), task.Finished, "")
		if took := time.Since(began); took > ackWait {
			t.Errorf("another node took %v to run it", took)
		}
	})
}
