package scheduler

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"millrace/task/job"
	"millrace/task/schedule"
)

// following keeps up with changes: one request for them serves all concurrent callers.
type following struct {
	turn  chan struct{}  // holds one during a request
	known *atomic.Uint64 // the highest sequence of the log that this scheduler has heard of

	mu     sync.Mutex
	seq    uint64    // guarded by mu; all changes up to it are applied
	looked time.Time // guarded by mu; when they were last requested

	// The sequence that the latest request reached which would have told that the log was made anew,
	// and when that was. The next one goes on from there: the others may have reached a sequence of
	// the new log. Guarded by turn.
	whole   uint64
	wholeAt time.Time
}

// wholeAge is for how long a following may miss that the log was made anew.
const wholeAge = 500 * time.Millisecond

func newFollowing(known *atomic.Uint64) following {
	return following{turn: make(chan struct{}, 1), known: known}
}

// hear notes that the log has reached a sequence.
func (s *Scheduler) hear(seq uint64) {
	for was := s.heard.Load(); was < seq && !s.heard.CompareAndSwap(was, seq); was = s.heard.Load() {
	}
}

// upTo returns once all changes up to a time, a reading of [time.Now], are applied. Ask requests
// them, given a sequence that the log has reached, 0 for none. It returns the function that applies
// them, called with mu held, and the sequence reached.
func (f *following) upTo(ctx context.Context, at time.Time, ask func(after, known uint64) (heed func(), reached uint64, err error)) error {
	if f.has(at) {
		return nil
	}
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if f.has(at) {
		return nil // another caller has asked meanwhile
	}
	now := time.Now()
	after, known := f.seq, f.known.Load() // only the holder of turn writes seq
	whole := known <= after || now.Sub(f.wholeAt) >= wholeAge
	if whole {
		after, known = f.whole, 0
	}
	heed, reached, err := ask(after, known)
	if err != nil {
		return err
	}
	if whole {
		f.whole, f.wholeAt = reached, now
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	heed()
	f.seq, f.looked = reached, now
	return nil
}

func (f *following) has(at time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.looked.Before(at)
}

// plans caches the definitions of all schedules that have ticks: those that are not paused.
type plans struct {
	from Schedules
	following
	all map[string]*planned // guarded by mu; replaced, never modified
	new map[string]bool     // guarded by mu; those put since the last request
}

// planned is a definition with its plan.
type planned struct {
	schedule.Stored
	plan *schedule.Plan
}

// readAheadAge is the largest age of a definition that is read ahead of its use.
const readAheadAge = 100 * time.Millisecond

// get returns a schedule as it was at a time (a reading of [time.Now]) or later; nil if it has no
// ticks.
func (p *plans) get(ctx context.Context, name string, at time.Time) (*planned, error) {
	if err := p.follow(ctx, at); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all[name], nil
}

// list returns all as of a time, or later.
func (p *plans) list(ctx context.Context, at time.Time) ([]*planned, error) {
	if err := p.follow(ctx, at); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.all)), nil
}

// follow applies the changes up to a time.
func (p *plans) follow(ctx context.Context, at time.Time) error {
	return p.upTo(ctx, at, func(after, known uint64) (func(), uint64, error) {
		changed, all, reached, err := p.from.ScheduleChanges(ctx, after, known)
		if err != nil {
			return nil, 0, err
		}
		if all || p.all == nil {
			stored, err := p.from.Schedules(ctx)
			if stored == nil && err != nil {
				return nil, 0, err
			} // callers of Schedules see the unreadable ones
			return func() {
				p.all = make(map[string]*planned, len(stored))
				for i := range stored {
					p.put(stored[i].Name, &stored[i])
				}
			}, reached, nil
		}
		return func() {
			for _, c := range changed {
				p.put(c.Name, c.Now)
			}
		}, reached, nil
	})
}

// put needs mu held. Stored is nil for a removed schedule.
func (p *plans) put(name string, stored *schedule.Stored) {
	delete(p.all, name)
	if stored == nil {
		return
	}
	if plan, err := stored.Plan(); err == nil { // it was valid when stored
		p.all[name] = &planned{*stored, plan}
		if p.new == nil {
			p.new = map[string]bool{}
		}
		p.new[name] = true
	}
}

// fresh returns, among the schedules with ticks, those that were put since its last call, and those
// with certain names.
func (p *plans) fresh(also map[string]bool) []*planned {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.new) == 0 && len(also) == 0 {
		return nil
	}
	maps.Copy(also, p.new)
	p.new = nil
	all := make([]*planned, 0, len(also))
	for name := range also {
		if is := p.all[name]; is != nil {
			all = append(all, is)
		}
	}
	return all
}

// jobs caches the jobs of schedules, from their first read until they change.
type jobs struct {
	from Schedules
	following
	read map[string]*jobNow // guarded by mu; replaced, never modified
}

// jobNow is a job and its revision.
type jobNow struct {
	job.Job
	revision uint64
}

// jobsKept bounds how many are kept.
const jobsKept = 50_000

// get returns a job as it was at a time (a reading of [time.Now]) or later. The error wraps
// [birth.ErrNoTask] if no runnable job has this name.
func (j *jobs) get(ctx context.Context, name string, at time.Time) (*jobNow, error) {
	err := j.upTo(ctx, at, func(after, known uint64) (func(), uint64, error) {
		changed, all, reached, err := j.from.JobChanges(ctx, after, known)
		return func() {
			if all || j.read == nil {
				j.read = map[string]*jobNow{}
			}
			for _, name := range changed {
				delete(j.read, name)
			}
		}, reached, err
	})
	if err != nil {
		return nil, err
	}
	j.mu.Lock()
	now, seq := j.read[name], j.seq
	j.mu.Unlock()
	if now != nil {
		return now, nil
	}
	job, revision, err := j.from.JobToRun(ctx, name)
	if err != nil {
		return nil, err
	}
	now = &jobNow{job, revision}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.seq != seq {
		return now, nil // this job may be what has changed
	}
	if len(j.read) >= jobsKept {
		clear(j.read)
	}
	j.read[name] = now
	return now, nil
}
