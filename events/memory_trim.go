package events

import (
	"context"
	"fmt"
	"slices"
	"time"

	"millrace/task"
	"millrace/task/node"
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

// First implements [Trimmer].
func (m *Memory) First(context.Context) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.records) == 0 {
		return m.last() + 1, nil
	}
	return m.records[0].Seq, nil
}

// StoredAt implements [Trimmer].
func (m *Memory) StoredAt(_ context.Context, at time.Time) (uint64, time.Time, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.records {
		if r := &m.records[i]; !r.Stored.Before(at) {
			return r.Seq, r.Stored, nil
		}
	}
	return 0, time.Time{}, nil
}

// Floor implements [Trimmer].
func (m *Memory) Floor(context.Context) (Floor, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fireTimers()
	if len(m.offers) == 0 {
		return Floor{}, nil
	}
	r := m.at(m.offers[0].seq)
	return Floor{Seq: r.Seq, Holder: r.Fact.Task, Since: r.Stored}, nil
}

// Later implements [Trimmer].
func (m *Memory) Later(_ context.Context, ids []task.ID, seq uint64) (map[task.ID]bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fireTimers()
	later := map[task.ID]bool{}
	for _, id := range ids {
		if seqs := m.tasks[id]; len(seqs) > 0 && seqs[len(seqs)-1] >= seq {
			later[id] = true
		}
	}
	return later, nil
}

// Trim implements [Trimmer].
func (m *Memory) Trim(_ context.Context, below uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fireTimers()
	below = min(below, m.last()+1)
	gone := func(seq uint64) bool { return seq < below }
	if n := m.index(below); n > 0 {
		m.trimmed = below - 1
		m.records = slices.Clone(m.records[n:])
	}
	for id, seqs := range m.tasks {
		if m.tasks[id] = slices.DeleteFunc(seqs, gone); len(m.tasks[id]) == 0 {
			delete(m.tasks, id)
		}
	}
	for id, seqs := range m.nodes {
		m.nodes[id] = slices.DeleteFunc(seqs, gone)
	}
	for name, seqs := range m.asked {
		m.asked[name] = slices.DeleteFunc(seqs, gone)
	}
	m.offers = slices.DeleteFunc(m.offers, func(o *memoryOffer) bool { return gone(o.seq) })
	m.acked = slices.DeleteFunc(m.acked, func(o *memoryOffer) bool { return gone(o.seq) })
	for c, head := range m.heads {
		if gone(head) {
			delete(m.heads, c)
		}
	}
	m.wake()
	return nil
}

// carries tells whether the first of a node's facts says all that was said up to a sequence.
func (m *Memory) carries(seqs []uint64, from uint64) bool {
	for _, seq := range seqs {
		if e, ok := m.at(seq).Fact.Event.(node.Carried); ok {
			return e.Fold.Head >= from
		}
	}
	return false
}
