package scheduler

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/limit"
	"millrace/task/queue"
	"millrace/task/quota"
)

// limitView is a read model in memory that reports changes to one scheduler.
type limitView struct {
	log  *events.Memory
	late time.Duration // how long after the log it knows a change; only in a bubble

	mu     sync.Mutex
	seq    uint64
	tasks  map[task.ID]task.Task
	grants map[task.ID]task.Grant
	queues map[string]queue.Queue
	used   quota.Used
	moved  chan struct{}
}

func newLimitView(log *events.Memory) *limitView {
	return &limitView{log: log, tasks: map[task.ID]task.Task{}, grants: map[task.ID]task.Grant{}, queues: map[string]queue.Queue{}, used: quota.Used{Rates: map[string]time.Time{}, Budgets: limit.Tallies{}}, moved: make(chan struct{})}
}

// follow reports the log to a scheduler until ctx ends.
func (v *limitView) follow(ctx context.Context, s *Scheduler) {
	feed, _ := v.log.Follow(ctx, 1)
	for {
		records, err := feed.Next(ctx)
		if err != nil {
			return
		}
		if v.late > 0 {
			hold(v.late)
		}
		v.mu.Lock()
		steps := make([]events.Step, len(records))
		for i := range records {
			r := &records[i]
			steps[i].Record = r
			if e, ok := r.Fact.Event.(task.Granted); ok {
				for _, g := range e.Grants {
					v.grants[g.Task] = g
				}
				maps.Copy(v.used.Rates, e.Rates)
			}
			if e, ok := r.Fact.Event.(queue.Event); ok {
				q := v.queues[r.Fact.Queue]
				q.Name = r.Fact.Queue
				v.queues[q.Name] = queue.Evolve(q, r.Seq, r.Fact.At, r.Fact.Actor, e)
			}
			if id := r.Fact.Task; id != "" {
				t, ok := v.tasks[id]
				if !ok {
					t.ID = id
				}
				steps[i].Was = events.GlanceAt(&t)
				t = task.Evolve(t, r.Task())
				v.tasks[id] = t
				steps[i].Is, steps[i].Task = events.GlanceAt(&t), &t
				took := quota.ShiftOf(&t, steps[i].Was.Course, steps[i].Is.Course, r.Task())
				v.used.Budgets.Spend(took.Counters, took.Shift)
			}
			v.seq = r.Seq
		}
		close(v.moved)
		v.moved = make(chan struct{})
		v.mu.Unlock()
		s.Observe(steps)
	}
}

func (v *limitView) EachLimited(_ context.Context, each quota.Each) (quota.Used, uint64, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(v.tasks)) {
		if t := v.tasks[id]; !t.State.Terminal() {
			each(quota.StandOf(&t), t.Counters, v.grant(id))
		}
	}
	return quota.Used{Rates: maps.Clone(v.used.Rates), Budgets: maps.Clone(v.used.Budgets)}, v.seq, nil
}

// grant returns the latest admission of a task, nil if there is none.
func (v *limitView) grant(id task.ID) *task.Grant {
	if g, ok := v.grants[id]; ok {
		return &g
	}
	return nil
}

func (v *limitView) SaidOfQueues(context.Context) ([]queue.Queue, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Collect(maps.Values(v.queues)), nil
}

func (v *limitView) Known(_ context.Context, ids []task.ID) ([]task.Task, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	var found []task.Task
	for _, id := range ids {
		if t, ok := v.tasks[id]; ok {
			found = append(found, t)
		}
	}
	return found, nil
}

func (v *limitView) Wait(ctx context.Context, seq uint64) error {
	for {
		v.mu.Lock()
		reached, moved := v.seq, v.moved
		v.mu.Unlock()
		if reached >= seq {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
