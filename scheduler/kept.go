package scheduler

import (
	"context"
	"sync"
	"time"

	"millrace/task"
)

// kept keeps definitions of one kind that were read, by name, until they change. To look for
// changes costs one request for all who ask meanwhile; to read a definition costs one each.
type kept[T any] struct {
	// changes are the names of those that were changed after a sequence, or all.
	changes func(ctx context.Context, after uint64) (names []string, all bool, reached uint64, err error)
	// read returns one, and whether it is to be kept.
	read func(ctx context.Context, name string) (T, bool, error)

	mu     sync.Mutex
	seq    uint64       // guarded by mu, like all below; all changes up to it have been heeded
	looked time.Time    // when it was asked for changes
	names  map[string]T // what is kept
}

const (
	// keptFresh is how old a definition may be that is read ahead of its use.
	keptFresh = 100 * time.Millisecond
	keptMost  = 100_000
)

// get returns a definition as it was at a time, or later. The time is a reading of [time.Now].
func (k *kept[T]) get(ctx context.Context, name string, at time.Time) (T, error) {
	v, there, seq, err := k.look(ctx, name, at)
	if there || err != nil {
		return v, err
	}
	v, keep, err := k.read(ctx, name)
	if err != nil || !keep {
		return v, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.seq == seq { // else it may be what has changed
		if len(k.names) >= keptMost {
			clear(k.names)
		}
		k.names[name] = v
	}
	return v, nil
}

func (k *kept[T]) look(ctx context.Context, name string, at time.Time) (v T, there bool, seq uint64, err error) {
	k.mu.Lock() // the others wait for this one
	defer k.mu.Unlock()
	if k.looked.Before(at) {
		now := time.Now()
		names, all, reached, err := k.changes(ctx, k.seq)
		if err != nil {
			return v, false, 0, err
		}
		if all {
			clear(k.names)
		}
		for _, changed := range names {
			delete(k.names, changed)
		}
		k.seq, k.looked = reached, now
	}
	v, there = k.names[name]
	return v, there, k.seq, nil
}

// fill keeps what was read of all at a sequence or later, unless more is known.
func (k *kept[T]) fill(seq uint64, all map[string]T) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.seq <= seq && len(all) <= keptMost {
		k.seq, k.names = seq, all
	}
}

// jobRead is a job and its revision.
type jobRead struct {
	task.Job
	revision uint64
}

func keptPlans(from Schedules) *kept[planned] {
	return &kept[planned]{names: map[string]planned{}, changes: from.ScheduleChanges, read: func(ctx context.Context, name string) (p planned, keep bool, err error) {
		stored, err := from.Schedule(ctx, name)
		switch {
		case err != nil && !from.Gone(err):
			return p, false, err
		case err == nil && stored.Paused == nil:
			p.Stored = stored
			if p.plan, err = stored.Plan(); err != nil {
				p.plan = nil // it was good when it was read
			}
		}
		return p, p.plan != nil, nil // one that is gone fires no more
	}}
}

func keptJobs(from Schedules) *kept[jobRead] {
	return &kept[jobRead]{names: map[string]jobRead{}, changes: from.JobChanges, read: func(ctx context.Context, name string) (jobRead, bool, error) {
		j, revision, err := from.JobToRun(ctx, name)
		return jobRead{j, revision}, err == nil, err
	}}
}
