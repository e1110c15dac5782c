package worker

import (
	"context"
	"sync/atomic"
	"time"

	"millrace/task/node"
)

// Stats is what a worker does at the moment, and its counters since it began.
type Stats struct {
	// Slots is how many tasks it can run at once; Busy is how many run.
	Slots, Busy int
	// Fetching tells whether it asks for work and the last answer was no error.
	Fetching bool
	// LastBeat is when its last heartbeat was stored; zero for never.
	LastBeat time.Time
	// Counts of leases that were extended, and of failed extensions.
	LeasesExtended, LeasesNot uint64
	// Counts of heartbeats that were stored, and of those that failed.
	HeartbeatsStored, HeartbeatsLost uint64
}

// Stats returns the worker's current figures. Safe for concurrent use, also while Run is not
// running.
func (w *Worker) Stats() Stats {
	c := &w.counts
	s := Stats{
		Slots: w.cfg.Slots, Busy: w.leases.count(), Fetching: c.pulling.Load() && !c.refused.Load(),
		LeasesExtended: c.extensions.Load(), LeasesNot: c.extensionsLost.Load(),
		HeartbeatsStored: c.beats.Load(), HeartbeatsLost: c.beatsLost.Load(),
	}
	if at := c.lastBeat.Load(); at != nil {
		s.LastBeat = *at
	}
	return s
}

// counts are the counters behind [Worker.Stats].
type counts struct {
	pulling                    atomic.Bool // slots ask for work as soon as they are free
	refused                    atomic.Bool // the last request got an error
	extensions, extensionsLost atomic.Uint64
	beats, beatsLost           atomic.Uint64
	lastBeat                   atomic.Pointer[time.Time]
}

// asked notes the outcome of a request for work. A request that the node itself broke off, as it
// does at each interruption, does not count: else an idle worker would count as refused until the
// next task.
func (c *counts) asked(err error, asking context.Context) {
	if refused := err != nil && asking.Err() == nil; c.refused.Load() != refused {
		c.refused.Store(refused)
	}
}

func (c *counts) extended(err error) {
	if err != nil {
		c.extensionsLost.Add(1)
		return
	}
	c.extensions.Add(1)
}

// countedBeats counts the heartbeats that are stored.
type countedBeats struct {
	Nodes
	counts *counts
}

func (s countedBeats) Beat(ctx context.Context, id node.ID, h node.Heartbeat, ttl time.Duration) error {
	err := s.Nodes.Beat(ctx, id, h, ttl)
	if err != nil {
		s.counts.beatsLost.Add(1)
		return err
	}
	now := time.Now()
	s.counts.beats.Add(1)
	s.counts.lastBeat.Store(&now)
	return nil
}
