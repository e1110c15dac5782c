package observe

import (
	"context"
	"time"

	"millrace/events"
	"millrace/internal/metrics"
	"millrace/task/node"
)

// Heartbeats is a scheduler's port to heartbeats.
type Heartbeats interface {
	Alive(ctx context.Context) (map[node.ID]node.Heartbeat, error)
	Beating(ctx context.Context, id node.ID) (node.Heartbeat, bool, error)
	WatchBeats(ctx context.Context, gone func(id node.ID, last time.Time), lost func()) error
	events.Pulses
}

// Watched are heartbeats whose gaps are measured whenever a caller reads them all.
type Watched struct {
	Heartbeats
	Beats *metrics.Beats
	// Now is the clock for the age of heartbeats. Default [time.Now].
	Now func() time.Time
}

func (w Watched) now() time.Time {
	if w.Now == nil {
		return time.Now()
	}
	return w.Now()
}

// Alive reads the heartbeats.
func (w Watched) Alive(ctx context.Context) (map[node.ID]node.Heartbeat, error) {
	alive, err := w.Heartbeats.Alive(ctx)
	if err == nil {
		w.Beats.Look(alive, w.now())
	}
	return alive, err
}
