package scheduler

import (
	"context"
	"sync"
	"time"
)

// plans keeps definitions that were read, as long as none has changed. To look whether
// one has costs one request for all fires of planFresh, to read one costs one each.
//
// What is a little old does no harm: whoever changes a definition sets its timer after that, and
// a scheduler sets one only where there is none; a timer that was set for a schedule that is gone
// or paused fires once, and nothing follows.
type plans struct {
	mu     sync.Mutex
	seq    uint64    // guarded by mu, like all below
	looked time.Time // when seq was
	kept   map[string]planned
}

const (
	planFresh = 100 * time.Millisecond
	plansKept = 100_000
)

// planOf returns a definition and its plan; plan is nil if it does not fire any more.
func (s *Scheduler) planOf(ctx context.Context, name string) (planned, error) {
	c := &s.plans
	c.mu.Lock()
	if now := time.Now(); now.Sub(c.looked) > planFresh {
		seq, err := s.cfg.Schedules.SchedulesSeq(ctx) // the others wait for this one
		if err != nil {
			c.mu.Unlock()
			return planned{}, err
		}
		if seq != c.seq || len(c.kept) > plansKept {
			c.kept = map[string]planned{}
		}
		c.seq, c.looked = seq, now
	}
	p, ok := c.kept[name]
	seq := c.seq
	c.mu.Unlock()
	if ok {
		return p, nil
	}
	stored, err := s.cfg.Schedules.Schedule(ctx, name)
	switch {
	case err != nil && !s.cfg.Schedules.Gone(err):
		return p, err
	case err == nil && stored.Paused == nil:
		p.Stored = stored
		if p.plan, err = stored.Plan(); err != nil {
			p.plan = nil // it was good when it was read
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seq == seq && c.kept != nil && p.plan != nil { // one that comes back is to be seen at once
		c.kept[name] = p
	}
	return p, nil
}

// warmPlans keeps all definitions that the sweep has read, so that a burst of fires need not.
func (s *Scheduler) warmPlans(seq uint64, all []planned) {
	c := &s.plans
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seq > seq {
		return
	}
	c.seq, c.looked, c.kept = seq, time.Now(), make(map[string]planned, len(all))
	for _, p := range all[:min(len(all), plansKept)] {
		if p.Paused == nil {
			c.kept[p.Name] = p
		}
	}
}
