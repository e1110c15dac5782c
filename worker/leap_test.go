package worker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"millrace/events"
	"millrace/history/verify"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/value"
	"millrace/worker"
)

// The clock of the server that keeps the log is set back by ten minutes. What runs goes on and is taken
// over by nobody, new work runs at once, and what was to come before then comes once, when the clock
// has got there again.
func TestClockOfTheLogSetBack(t *testing.T) {
	const back, soon = 10 * time.Minute, 30 * time.Second
	synctest.Test(t, func(t *testing.T) {
		var off atomic.Int64
		clock := func() time.Time { return time.Now().Add(time.Duration(off.Load())) }
		w := &world{t, events.NewMemory(clock, ackWait), nil, ackWait}
		w.rec = &events.Recorder{Log: w.log, Actor: "test", Now: clock, NewID: events.NewID}
		submit := func(spec job.Spec, delay time.Duration) task.ID {
			t.Helper()
			b, err := birth.Of(birth.Submission{Spec: &spec, Delay: value.Duration(delay)}, nil, 0, clock())
			if err != nil {
				t.Fatal(err)
			}
			id := task.ID(events.NewID(clock()))
			if _, err := w.rec.Submit(t.Context(), id, b); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return id
		}
		failed := false
		for _, id := range []node.ID{"a", "b"} {
			cfg := quick
			cfg.Node, cfg.Slots, cfg.Now = id, 4, clock
			w.start(cfg, map[string]worker.Handler{
				"h": done,
				"long": func(ctx context.Context, _ task.Task) error {
					return takes(ctx, 2*time.Minute)
				},
				"once": func(context.Context, task.Task) error {
					if failed {
						return nil
					}
					failed = true
					return errors.New("not yet")
				},
			})
		}
		long := submit(job.Spec{Handler: "long"}, 0)
		retried := submit(job.Spec{Handler: "once", Retry: job.Retry{Max: 1, Min: value.Duration(soon)}}, 0)
		later := submit(job.Spec{Handler: "h"}, soon)
		pass(10 * time.Second)
		off.Store(-int64(back))
		began := time.Now()
		fresh := submit(job.Spec{Handler: "h"}, 0)
		pass(time.Second)
		w.wantState(w.task(fresh), task.Finished, "")
		w.wantState(w.task(long), task.Running, "")
		pass(2 * time.Minute)
		w.wantFacts(long, events.AttemptStarted, events.AttemptFinished)
		w.wantState(w.task(later), task.Scheduled, "")
		for _, id := range []task.ID{retried, later} {
			w.wantState(w.ended(id), task.Finished, "")
		}
		if took := time.Since(began); took < back || took > back+soon {
			t.Errorf("what was due in %v came after %v", soon, took)
		}
		w.wantFacts(later, events.TaskDue, events.AttemptStarted, events.AttemptFinished)
		w.wantFacts(retried, events.AttemptStarted, events.AttemptFailed, events.TaskDue, events.AttemptStarted, events.AttemptFinished)
		for _, f := range verify.Decided(w.log.All()) {
			t.Errorf("%s", f.What)
		}
	})
}
