package scheduler

import (
	"millrace/task"
	"millrace/task/quota"
)

// Limits returns the counters under which tasks stand, those with the most waiting first, at
// most so many and each with at most so many of its holders; then how many there are, and a
// sequence of the log that this reflects. If name is not "", it is that one alone. A scheduler
// that looks after no limits knows of none.
func (s *Scheduler) Limits(name string, most, holders int) (counters []quota.CounterState, all int, seq uint64) {
	a := s.admitter
	if a == nil {
		return nil, 0, 0
	}
	now := a.rec.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	seq = a.observed.Load()
	counters, all = a.book.Known().Told(name, now, most, holders)
	return counters, all, seq
}

// Standing tells where a task stands before its limits; false if it stands before none.
func (s *Scheduler) Standing(id task.ID, holders int) (quota.Standing, bool) {
	a := s.admitter
	if a == nil {
		return quota.Standing{}, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.book.Known().Standing(id, a.rec.Now(), holders)
}
