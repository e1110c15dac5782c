package scheduler

import (
	"context"
	"sync"
	"time"

	"millrace/task"
	"millrace/task/schedule"
)

// plans keeps the definitions of all schedules that fire. To look what has changed costs one request
// for all who ask meanwhile.
type plans struct {
	from Schedules

	mu     sync.Mutex
	seq    uint64              // guarded by mu, like all below; all changes up to it have been heeded
	looked time.Time           // when it was asked for changes
	all    map[string]*planned // never modified, only replaced
}

// planned is a definition with its plan.
type planned struct {
	schedule.Stored
	plan *schedule.Plan
}

// readAheadAge is how old a definition may be that is read ahead of its use.
const readAheadAge = 100 * time.Millisecond

// get returns a schedule as it was at a time, which is a reading of [time.Now], or later; nil if it does not fire.
func (p *plans) get(ctx context.Context, name string, at time.Time) (*planned, error) {
	p.mu.Lock() // the others wait for this one
	defer p.mu.Unlock()
	err := p.catchUp(ctx, at)
	return p.all[name], err
}

// follow heeds what has changed, so that who needs one does not wait for much.
func (p *plans) follow(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.catchUp(ctx, time.Now())
}

// list returns all as they were at a time, or later.
func (p *plans) list(ctx context.Context, at time.Time) ([]*planned, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.catchUp(ctx, at); err != nil {
		return nil, err
	}
	all := make([]*planned, 0, len(p.all))
	for _, one := range p.all {
		all = append(all, one)
	}
	return all, nil
}

// catchUp must be called with mu held.
func (p *plans) catchUp(ctx context.Context, at time.Time) error {
	if !p.looked.Before(at) {
		return nil
	}
	now := time.Now()
	changed, all, reached, err := p.from.ScheduleChanges(ctx, p.seq)
	if err != nil {
		return err
	}
	if all || p.all == nil {
		stored, err := p.from.Schedules(ctx)
		if stored == nil && err != nil {
			return err
		} // those that cannot be read are listed to who asks for them
		p.all = make(map[string]*planned, len(stored))
		for i := range stored {
			p.put(stored[i].Name, &stored[i])
		}
	}
	for _, c := range changed {
		p.put(c.Name, c.Now)
	}
	p.seq, p.looked = reached, now
	return nil
}

// put must be called with mu held; stored is nil for one that is gone.
func (p *plans) put(name string, stored *schedule.Stored) {
	delete(p.all, name)
	if stored == nil || stored.Paused != nil {
		return
	}
	if plan, err := stored.Plan(); err == nil { // it was good when it was stored
		p.all[name] = &planned{*stored, plan}
	}
}

// jobs keeps the jobs of schedules, from when they are first read until they change.
type jobs struct {
	from Schedules

	mu     sync.Mutex
	seq    uint64             // guarded by mu, like all below; as in plans
	looked time.Time          // likewise
	read   map[string]*jobNow // never modified, only replaced
}

// jobNow is a job and its revision.
type jobNow struct {
	task.Job
	revision uint64
}

// jobsKept bounds how many are kept.
const jobsKept = 50_000

// get returns a job as it was at a time, which is a reading of [time.Now], or later. The error wraps [ErrNoTask] if
// there is none that can be run.
func (j *jobs) get(ctx context.Context, name string, at time.Time) (*jobNow, error) {
	now, seq, err := j.look(ctx, name, at)
	if now != nil || err != nil {
		return now, err
	}
	job, revision, err := j.from.JobToRun(ctx, name)
	if err != nil {
		return nil, err
	}
	now = &jobNow{job, revision}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.seq != seq {
		return now, nil // it may be what has changed
	}
	if len(j.read) >= jobsKept {
		clear(j.read)
	}
	j.read[name] = now
	return now, nil
}

func (j *jobs) look(ctx context.Context, name string, at time.Time) (*jobNow, uint64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.looked.Before(at) {
		now := time.Now()
		changed, all, reached, err := j.from.JobChanges(ctx, j.seq)
		if err != nil {
			return nil, 0, err
		}
		if all || j.read == nil {
			j.read = map[string]*jobNow{}
		}
		for _, name := range changed {
			delete(j.read, name)
		}
		j.seq, j.looked = reached, now
	}
	return j.read[name], j.seq, nil
}
