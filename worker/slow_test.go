package worker_test

import (
	"context"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/worker"
)

// slow is a store whose every answer takes a while. What is on its way arrives, whether the caller still
// waits or not.
type slow struct {
	*store
	takes time.Duration
}

func (s slow) Append(ctx context.Context, f *events.Fact, last uint64) (uint64, error) {
	return answered(s, func() (uint64, error) { return s.store.Append(context.WithoutCancel(ctx), f, last) })
}

func (s slow) Task(ctx context.Context, id task.ID) ([]events.Record, error) {
	return answered(s, func() ([]events.Record, error) { return s.store.Task(ctx, id) })
}

func (s slow) Node(ctx context.Context, id node.ID, from uint64) ([]events.Record, error) {
	return answered(s, func() ([]events.Record, error) { return s.store.Node(ctx, id, from) })
}

func (s slow) Beat(ctx context.Context, id node.ID, h node.Heartbeat, ttl time.Duration) error {
	_, err := answered(s, func() (struct{}, error) { return struct{}{}, s.store.Beat(ctx, id, h, ttl) })
	return err
}

// answered does something in the middle of the time that an answer takes.
func answered[T any](s slow, do func() (T, error)) (T, error) {
	wait(s.takes / 2)
	defer wait(s.takes / 2)
	return do()
}

// lateClaims is a store that takes a while to answer claims.
type lateClaims struct {
	*store
	takes time.Duration
}

func (s lateClaims) Append(ctx context.Context, f *events.Fact, last uint64) (uint64, error) {
	if _, claims := f.Event.(task.AttemptStarted); claims {
		return slow(s).Append(ctx, f, last)
	}
	return s.store.Append(ctx, f, last)
}

// A server that takes seconds for each answer is slow, not lost: what a worker claims there runs once,
// to its end, and nothing is given back.
func TestSlowIsNotLost(t *testing.T) {
	for _, c := range []struct {
		name  string
		takes time.Duration
		lease time.Duration
		cfg   worker.Config
	}{
		{"a second, as in dev", time.Second, 6 * time.Second, worker.Config{Beat: 2 * time.Second, NodeTTL: 6 * time.Second}},
		{"one and a half, as in dev", 1500 * time.Millisecond, 6 * time.Second, worker.Config{Beat: 2 * time.Second, NodeTTL: 6 * time.Second}},
		{"a second, as in prod", time.Second, 30 * time.Second, worker.Config{Beat: 5 * time.Second, NodeTTL: 15 * time.Second}},
		{"two seconds", 2 * time.Second, 30 * time.Second, worker.Config{Beat: 5 * time.Second, NodeTTL: 15 * time.Second}},
		{"three seconds", 3 * time.Second, 30 * time.Second, worker.Config{Beat: 5 * time.Second, NodeTTL: 15 * time.Second}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubbleOf(t, c.lease, func(w *world) {
				s := newStore(w.log)
				s.lease = w.lease
				on := s.ports()
				behind := slow{s, c.takes}
				on.Log, on.Nodes = behind, behind
				c.cfg.Slots = 8
				w.startPorts(s, on, c.cfg, map[string]worker.Handler{"h": func(ctx context.Context, _ task.Task) error {
					return takes(ctx, 2*time.Second)
				}})
				pass(4 * c.takes)
				var ids []task.ID
				for range 40 {
					ids = append(ids, w.submit(job.Spec{}))
				}
				for _, id := range ids {
					w.wantState(w.ended(id), task.Finished, "")
					w.wantFacts(id, events.AttemptStarted, events.AttemptFinished)
				}
			})
		})
	}
}

// A claim whose answer comes so late that the next heartbeat would be too late for what starts then
// waits for that heartbeat. A cancel ends the wait, and a log that stays silent has the task given back.
func TestLateClaimWaits(t *testing.T) {
	for _, c := range []struct {
		name   string
		beats  bool // go on
		cancel bool
		want   []events.Type
		starts int
	}{
		{"a heartbeat confirms it", true, false, []events.Type{events.AttemptStarted, events.AttemptFinished}, 1},
		{"it is cancelled", false, true, []events.Type{events.AttemptStarted, events.TaskCancelRequested, events.TaskCancelled}, 0},
		{"no heartbeat is stored", false, false, []events.Type{events.AttemptStarted, events.AttemptReleased, events.TaskQueued}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				s := newStore(w.log)
				on := s.ports()
				on.Log = lateClaims{s, 7 * time.Second} // of 8 in which something may run after its claim
				started := make(chan time.Time, 2)
				w.startPorts(s, on, worker.Config{Beat: 3 * time.Second, NodeTTL: ackWait}, map[string]worker.Handler{"h": func(context.Context, task.Task) error {
					started <- time.Now()
					return nil
				}})
				pass(9 * time.Second) // a heartbeat has just been stored
				claimed := time.Now()
				id := w.submit(job.Spec{})
				pass(6500 * time.Millisecond) // the next but one, too
				if !c.beats {
					set(s, &s.beating, func() error { return errBroken })
				}
				pass(600 * time.Millisecond)
				if len(started) > 0 {
					t.Error("it starts when its claim is answered")
				}
				if c.cancel {
					if _, _, err := w.rec.Do(t.Context(), w.task(id), task.Cancel{Reason: "test"}); err != nil {
						t.Fatal(err)
					}
					_ = s.Hint("a", id) // always nil
				}
				pass(4 * time.Second)
				w.wantFacts(id, c.want...)
				if len(started) != c.starts {
					t.Fatalf("it started %d times, want %d", len(started), c.starts)
				}
				if c.starts > 0 {
					if took := (<-started).Sub(claimed); took > 11*time.Second {
						t.Errorf("it started %v after its claim", took)
					}
				}
			})
		})
	}
}
