package events

import (
	"context"
	"fmt"
	"math"
	"time"

	"millrace/task/node"
)

// memoryBeat is a heartbeat, or the mark that one was removed.
type memoryBeat struct {
	beat    node.Heartbeat
	stored  time.Time
	ttl     time.Duration
	removed bool
}

// pulse is its state at a time.
func (b memoryBeat) pulse(now time.Time) node.Pulse {
	switch {
	case b.stored.IsZero():
		return node.Pulse{Now: now}
	case b.removed:
		return node.Pulse{Now: now, Stored: b.stored}
	}
	return node.PulseOf(b.beat, b.stored, b.stored.Add(b.ttl), now)
}

var _ Heartbeats = (*Memory)(nil)

// Beat implements [Heartbeats]. The session stands for the process.
func (m *Memory) Beat(ctx context.Context, id node.ID, h node.Heartbeat, ttl time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	process := string(id) + " " + h.Session
	if last := m.beats[id].pulse(m.now()).Beat; m.beaten[process] && last.Session != h.Session {
		delete(m.beaten, process)
		return fmt.Errorf("heartbeat of %s: %w", id, ErrConflict)
	}
	m.beaten[process] = true
	seconds := time.Duration(math.Ceil(ttl.Seconds())) * time.Second
	m.beats[id] = memoryBeat{beat: h, stored: m.now(), ttl: max(seconds, time.Second)}
	return nil
}

// Forget implements [Heartbeats].
func (m *Memory) Forget(ctx context.Context, id node.ID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.beaten, string(id)+" "+m.beats[id].beat.Session)
	m.beats[id] = memoryBeat{stored: m.now(), removed: true}
	return nil
}

// Pulse implements [Heartbeats].
func (m *Memory) Pulse(ctx context.Context, id node.ID) (node.Pulse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.beats[id].pulse(m.now()), nil
}

// Alive returns the heartbeats that have not expired.
func (m *Memory) Alive(ctx context.Context) (map[node.ID]node.Heartbeat, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	alive := map[node.ID]node.Heartbeat{}
	for id, b := range m.beats {
		if p := b.pulse(m.now()); p.Beat.Session != "" {
			alive[id] = p.Beat
		}
	}
	return alive, nil
}

// Redeliver hands the offer at a sequence out again at once, regardless of its lease, like a
// restarted server. With fresh its deliveries count anew, as after a kill. It does nothing if the
// offer was not handed out, or is finished.
func (m *Memory) Redeliver(seq uint64, fresh bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, o := range m.offers {
		if o.seq == seq {
			o.redeliver(m.now(), fresh)
		}
	}
	m.wake()
}

// LoseConsumers hands out all unacknowledged offers again and counts their deliveries anew, like a
// server that has lost its consumers.
func (m *Memory) LoseConsumers() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, o := range m.offers {
		o.redeliver(m.now(), true)
	}
	m.wake()
}

func (o *memoryOffer) redeliver(now time.Time, fresh bool) {
	if o.until = now; fresh {
		o.deliveries = 0
	}
}

// MemoryLease is an unacknowledged offer.
type MemoryLease struct {
	Seq        uint64
	Deliveries int
	// Left is how long it stays with its holder; 0 if it is available.
	Left time.Duration
}

// Leases lists the unacknowledged offers, in order.
func (m *Memory) Leases() []MemoryLease {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]MemoryLease, len(m.offers))
	for i, o := range m.offers {
		all[i] = MemoryLease{Seq: o.seq, Deliveries: o.deliveries}
		if o.deliveries > 0 {
			all[i].Left = max(o.until.Sub(m.now()), 0)
		}
	}
	return all
}

// Out lists, in order, the sequences of the offers that are handed out.
func (m *Memory) Out() []uint64 {
	var out []uint64
	for _, l := range m.Leases() {
		if l.Left > 0 {
			out = append(out, l.Seq)
		}
	}
	return out
}
