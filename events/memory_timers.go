package events

import (
	"context"
	"fmt"

	"millrace/task"
)

// TimerOf returns the fact that a timer stores for an offer: a reference to its turn. The error
// says that f is not an offer of a waiting task ([task.Queued]).
func TimerOf(f *Fact) (*Fact, error) {
	e, ok := f.Event.(task.Queued)
	if !ok {
		return nil, fmt.Errorf("arm: %s is no offer", f.Type)
	}
	timer := *f
	timer.Type, timer.Event = TaskDue, e.Timer()
	return &timer, nil
}

// Arm implements [Timekeeper].
func (m *Memory) Arm(ctx context.Context, f *Fact) error {
	timer, err := TimerOf(f)
	if err != nil {
		return err
	}
	offer, err := Encode(nil, f)
	if err != nil {
		return err
	}
	raw, err := Encode(nil, timer)
	if err != nil {
		return err
	}
	due := timer.Event.(task.Due)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fireTimers()
	if there, set := m.timers[f.Task]; set && !due.Replaces(there.Due) {
		return nil
	}
	m.declare(f.Task, offer, due.Route)
	m.timers[f.Task] = memoryTimer{due, raw}
	if due.Due.Before(m.soon) {
		m.soon = due.Due
	}
	m.wake()
	return nil
}

// Disarm implements [Timekeeper].
func (m *Memory) Disarm(ctx context.Context, id task.ID, before uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fireTimers()
	if t, ok := m.timers[id]; ok && t.Before(before) {
		delete(m.timers, id)
	}
	return nil
}

// Armed implements [Timers].
func (m *Memory) Armed(ctx context.Context, ids []task.ID) (map[task.ID]task.Due, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fireTimers()
	armed := map[task.ID]task.Due{}
	for _, id := range ids {
		if t, ok := m.timers[id]; ok {
			armed[id] = t.Due
		}
	}
	return armed, nil
}

// Timers implements [Timers].
func (m *Memory) Timers(ctx context.Context) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fireTimers()
	return len(m.timers), nil
}

// LoseTimers removes all timers, as any client with the permission to set timers can.
func (m *Memory) LoseTimers() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fireTimers()
	clear(m.timers)
}
