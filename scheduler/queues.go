package scheduler

import (
	"context"

	"millrace/task"
)

// sweepQueue looks what operators have said about a queue, and sees to it that it holds: who
// said it may have died before. It tells whether the queue is paused.
func (s *Scheduler) sweepQueue(ctx context.Context, name string, w *World) (paused bool, err error) {
	if task.ValidName("queue", name) != nil {
		return false, nil // a node's own route
	}
	if p, told := w.Told(name); told { // of another route of this queue
		return p != nil, nil
	}
	q, err := s.rec.LoadQueue(ctx, name)
	if err != nil || q.Head == 0 {
		return false, err
	}
	w.Tell(q)
	if s.cfg.Deliveries != nil && s.turns.first(name) {
		err = s.cfg.Deliveries.KeepQueue(ctx, name)
	}
	return q.PausedAt(w.Seen) != nil, err
}
