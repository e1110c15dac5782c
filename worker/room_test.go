package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/value"
	"millrace/worker"
)

// cost counts the slots that are taken at once, and the most that ever were.
type cost struct{ now, most atomic.Int64 }

func (c *cost) handler(takes time.Duration) worker.Handler {
	return func(_ context.Context, t task.Task) error {
		n := c.now.Add(int64(t.Spec.Cost()))
		for most := c.most.Load(); n > most && !c.most.CompareAndSwap(most, n); most = c.most.Load() {
		}
		wait(takes)
		c.now.Add(-int64(t.Spec.Cost()))
		return nil
	}
}

// A large task starts when its slots are free, and neither before nor after small ones
// that came later, however many there are.
func TestLargeTaskIsNotStarved(t *testing.T) {
	inBubble(t, func(w *world) {
		var c cost
		w.start(worker.Config{Slots: 4}, map[string]worker.Handler{"h": c.handler(10 * time.Second)})
		for range 4 {
			w.submit(job.Spec{})
			pass(time.Second)
		}
		large := w.submit(job.Spec{Slots: 3})
		var later []task.ID
		for range 20 {
			later = append(later, w.submit(job.Spec{}))
		}
		now := w.ended(large)
		w.wantState(now, task.Finished, "")
		if waited := now.StartedAt.Sub(now.SubmittedAt); waited > 12*time.Second {
			t.Errorf("it began after %v; its slots were free after 9s", waited)
		}
		for _, id := range later {
			w.ended(id)
		}
		if most := c.most.Load(); most > 4 {
			t.Errorf("%d slots were taken at once, and there are 4", most)
		}
	})
}

func TestLargeTaskWithRoom(t *testing.T) {
	inBubble(t, func(w *world) {
		var c cost
		w.start(worker.Config{Slots: 4}, map[string]worker.Handler{"h": c.handler(time.Second)})
		first, second := w.submit(job.Spec{Slots: 4}), w.submit(job.Spec{Slots: 2})
		if began := w.ended(first); began.StartedAt.Sub(began.SubmittedAt) > 0 {
			t.Errorf("it began after %v, and all slots were free", began.StartedAt.Sub(began.SubmittedAt))
		}
		w.ended(second)
		w.wantFacts(first, "attempt.started", "attempt.finished")
		own := w.submit(job.Spec{Slots: 3, Place: job.Place{Nodes: []string{"a"}}})
		small := w.submit(job.Spec{})
		w.ended(own)
		w.ended(small)
		if most := c.most.Load(); most > 4 {
			t.Errorf("%d slots were taken at once, and there are 4", most)
		}
		never := w.submit(job.Spec{Slots: 5, Place: job.Place{Nodes: []string{"a"}}})
		w.wantState(w.ended(never), task.Abnormal, value.Unplaced)
	})
}

// Two nodes make room for the same task: one runs it, and the other goes on with other tasks.
func TestRoomThatIsNotNeeded(t *testing.T) {
	inBubble(t, func(w *world) {
		var c cost
		h := map[string]worker.Handler{"h": c.handler(10 * time.Second)}
		w.start(worker.Config{Slots: 2, Node: "a"}, h)
		w.start(worker.Config{Slots: 2, Node: "b"}, h)
		for range 4 {
			w.submit(job.Spec{})
		}
		large := w.submit(job.Spec{Slots: 2})
		var later []task.ID
		for range 6 {
			later = append(later, w.submit(job.Spec{}))
		}
		w.ended(large)
		for _, id := range later {
			now := w.ended(id)
			if waited := now.StartedAt.Sub(now.SubmittedAt); waited > time.Minute {
				t.Errorf("a small task began after %v", waited)
			}
		}
		if n := len(w.facts(large)); n != 2 {
			t.Errorf("the large one has %d facts after its birth, want its start and its end", n)
		}
	})
}

// strict is a store that reads nothing for a caller that has ended.
type strict struct{ *store }

func (s strict) Task(ctx context.Context, id task.ID) ([]events.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.store.Task(ctx, id)
}

// A worker that ends while it makes room for a large task leaves the task to another one at once.
func TestRoomOfAWorkerThatEnds(t *testing.T) {
	inBubble(t, func(w *world) {
		var c cost
		h := map[string]worker.Handler{"h": c.handler(time.Second)}
		s := newStore(w.log)
		on := s.ports()
		on.Log = strict{s}
		a := w.startPorts(s, on, worker.Config{Slots: 2, Node: "a"}, h)
		w.submit(job.Spec{})
		large := w.submit(job.Spec{Slots: 2})
		pass(50 * time.Millisecond) // it waits for the other slot
		a.stop()
		pass(0)
		w.start(worker.Config{Slots: 2, Node: "b"}, h)
		if now := w.ended(large); now.StartedAt.Sub(now.SubmittedAt) > 2*time.Second {
			t.Errorf("it began after %v", now.StartedAt.Sub(now.SubmittedAt))
		}
	})
}
