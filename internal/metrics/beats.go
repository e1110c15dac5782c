package metrics

import (
	"sync"
	"time"

	"millrace/task/node"
)

// Beats measures the gaps between heartbeats. Look must be called more often than heartbeats come.
// It is a [Source]. Safe for concurrent use.
type Beats struct {
	mu   sync.Mutex
	last map[node.ID]node.Heartbeat // guarded by mu, like all below
	gaps *Histogram
	age  time.Duration // of the oldest at the last look
}

// NewBeats returns a Beats without heartbeats.
func NewBeats() *Beats {
	return &Beats{last: map[node.ID]node.Heartbeat{}, gaps: newHistogram(beatBounds)}
}

// Look takes the present heartbeats at an instant. Successive heartbeats of one session make a gap.
func (b *Beats) Look(alive map[node.ID]node.Heartbeat, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.age = 0
	for id, h := range alive {
		was, ok := b.last[id]
		if ok && was.Session == h.Session && h.At.After(was.At) {
			b.gaps.observe(h.At.Sub(was.At))
		}
		b.last[id] = h
		b.age = max(b.age, now.Sub(h.At))
	}
	for id := range b.last {
		if _, ok := alive[id]; !ok {
			delete(b.last, id)
		}
	}
}

// Collect emits the gaps and the age of the oldest heartbeat.
func (b *Beats) Collect(emit Emit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	emit(HeartbeatGap, 0, b.gaps)
	emit(HeartbeatAgeMax, b.age.Seconds(), nil)
	emit(HeartbeatsTotal, float64(len(b.last)), nil)
}
