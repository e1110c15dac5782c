package scheduler

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"millrace/events"
	"millrace/task"
)

// handed tracks until when tasks are left to preferred nodes, so that they return at that time and
// not at a later sweep.
type handed struct {
	some atomic.Bool // whether there are any; spares nearly all steps the lock

	mu    sync.Mutex
	until map[task.ID]time.Time // guarded by mu
}

// maxHanded bounds the entries in memory. The sweep finds any more.
const maxHanded = 100_000

// observe implements [reactor].
func (h *handed) observe(s *events.Step) {
	e, moved := s.Record.Fact.Event.(task.Reassigned)
	if !moved && !h.some.Load() {
		return
	}
	if !moved && s.Is.State == task.Pending {
		return // it still waits
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	id := s.Record.Fact.Task
	if !moved || e.Until.IsZero() {
		delete(h.until, id)
	} else if len(h.until) < maxHanded {
		if h.until == nil {
			h.until = map[task.ID]time.Time{}
		}
		h.until[id] = e.Until
	}
	h.some.Store(len(h.until) > 0)
}

// due removes and returns the tasks whose time has passed, in order.
func (h *handed) due(now time.Time) (ids []task.ID) {
	if !h.some.Load() {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, until := range h.until {
		if now.After(until) {
			ids = append(ids, id)
			delete(h.until, id)
		}
	}
	h.some.Store(len(h.until) > 0)
	slices.Sort(ids)
	return ids
}
