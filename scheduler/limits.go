package scheduler

import (
	"millrace/task"
	"millrace/task/quota"
)

// Limits returns up to most counters, those with the most waiting tasks first, each with up to
// holders of its holders; then how many counters there are, and the log sequence that this
// reflects. If name is not "", it returns that counter alone. A scheduler that does not admit tasks
// returns none.
func (s *Scheduler) Limits(name string, holders int) (counters []quota.CounterState, seq uint64) {
	a := s.admitter
	if a == nil {
		return nil, 0
	}
	now := a.rec.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	seq = a.observed.Load()
	return a.book.Known().Told(name, now, holders), seq
}

// Standing returns the position of a task before its limits; false if it has none.
func (s *Scheduler) Standing(id task.ID, holders int) (quota.Standing, bool) {
	a := s.admitter
	if a == nil {
		return quota.Standing{}, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.book.Known().Standing(id, a.rec.Now(), holders)
}
