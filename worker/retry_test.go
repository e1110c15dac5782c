package worker_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/duties"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/task/value"
	"millrace/worker"
)

// The nodes on which a task has failed leave the next attempt to other nodes, one after the other,
// but not for ever. That holds for every kind of route, and no offer goes round.
func TestAvoidNode(t *testing.T) {
	for name, c := range map[string]struct {
		place job.Place
		// others is how many other nodes there are, and busy whether their only slots are taken.
		others int
		busy   bool
		fails  int // so many attempts
		after  time.Duration
	}{
		"others are free":         {others: 3, fails: 1},
		"all but one have failed": {others: 3, fails: 3},
		"named":                   {place: job.Place{Nodes: []string{"a", "b1", "b2", "b3"}}, others: 3, fails: 3},
		"labels":                  {place: job.Place{Labels: placement.Selector{{Key: "gpu", Op: placement.OpExists}}}, others: 3, fails: 3},
		"another one is full":     {others: 1, busy: true, fails: 1, after: 5 * time.Minute},
		"there is no other":       {fails: 1},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				ran := map[string]int{}
				handlers := map[string]worker.Handler{
					"h": func(_ context.Context, t task.Task) error {
						ran[t.Node]++
						if t.Attempt <= c.fails {
							return errBroken
						}
						return nil
					},
					"slow": func(context.Context, task.Task) error { wait(time.Hour); return nil },
				}
				cfg := worker.Config{Labels: map[string]string{"gpu": ""}}
				cfg.Node = "a"
				stores := []*store{w.start(cfg, handlers).store}
				for i := range c.others {
					cfg.Node = node.ID(fmt.Sprint("b", i+1))
					stores = append(stores, w.start(cfg, handlers).store)
					if c.busy {
						w.submit(job.Spec{Handler: "slow", Place: job.Place{Nodes: []string{string(cfg.Node)}}})
					}
				}
				retry := job.Retry{Max: c.fails, Min: value.Duration(time.Minute), AvoidNode: true, AvoidWait: value.Duration(5 * time.Minute)}
				id := w.submit(job.Spec{Retry: retry, Place: c.place})
				if c.busy {
					pass(6 * time.Minute)
					// A scheduler then does what is due.
					duty := duties.Owes(w.task(id), duties.Surroundings{Serving: 1, Seen: time.Now()}, duties.Settings{})
					if !duty.Overdue(time.Now().Add(time.Second)) || duty.Overdue(time.Now().Add(-2*time.Minute)) {
						t.Errorf("it is left to the others until %v", duty.By)
					}
					if _, _, err := w.rec.Do(w.Context(), w.task(id), duty.Command); err != nil {
						t.Fatal(err)
					}
					if err := w.rec.Settle(w.Context(), new(w.task(id))); err != nil {
						t.Fatal(err)
					}
				}
				before := time.Now()
				w.wantState(w.ended(id), task.Finished, "")
				if took := time.Since(before); c.busy && took > time.Second {
					t.Errorf("nobody claimed it for %v", took)
				}
				for n, times := range ran {
					if times > 1 && c.others > 0 && !c.busy {
						t.Errorf("it ran %d times on %s: %v", times, n, ran)
					}
				}
				deliveries := 0
				for _, s := range stores {
					deliveries += get(s, &s.deliveries)
				}
				if most := 10 * (c.fails + 2); deliveries > most {
					t.Errorf("its offers were handed out %d times; want at most %d", deliveries, most)
				}
			})
		})
	}
}

// A handler asks when the task should be tried again.
func TestRetryAfter(t *testing.T) {
	inBubble(t, func(w *world) {
		w.start(worker.Config{}, map[string]worker.Handler{"h": func(_ context.Context, t task.Task) error {
			if t.Attempt == 1 {
				return fmt.Errorf("page 7: %w", worker.RetryAfter(errBroken, 42*time.Second))
			}
			return nil
		}})
		id := w.submit(job.Spec{Retry: job.Retry{Max: 1}})
		began := time.Now()
		w.wantState(w.ended(id), task.Finished, "")
		if took := w.task(id).StartedAt.Sub(began); took != 42*time.Second {
			w.Errorf("attempt 2 began %v after the first failed; want 42s", took)
		}
		failed := event[task.AttemptFailed](w, w.facts(id))
		if failed.Reason != "the task asked for a pause of 42s" || failed.Message != "page 7: "+errBroken.Error() {
			w.Errorf("failed with %q, %q", failed.Reason, failed.Message)
		}
		w.wantFacts(id, events.AttemptStarted, events.AttemptFailed, events.TaskDue, events.AttemptStarted, events.AttemptFinished)
	})
	if worker.RetryAfter(nil, time.Second) != nil {
		t.Error("no error became one")
	}
}
