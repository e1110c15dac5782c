package view

import (
	"context"
	"sync"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/quota"
)

// Folding is a model of a place in the log that folds what it is asked for when it is asked, and keeps that: of nodes, queues and
// definitions what is about them alone; for anything else the whole log up to there.
type Folding struct {
	at   Point
	read func(ctx context.Context, kind Kind, each func(*events.Record) error) error
	mu   sync.Mutex
	has  map[Kind]*Memory // guarded by mu; what is under Tasks has everything
}

var (
	_ Model  = (*Folding)(nil)
	_ Summed = (*Folding)(nil)
)

// NewFolding returns a model of a place in the log. Read hands on what the log has up to there, in its order: of nodes, queues
// or definitions what is about them, for [Tasks] everything.
func NewFolding(at Point, read func(ctx context.Context, kind Kind, each func(*events.Record) error) error) *Folding {
	return &Folding{at: at, read: read, has: map[Kind]*Memory{}}
}

// of is what has been folded of a kind.
func (f *Folding) of(ctx context.Context, kind Kind) (*Memory, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if kind != Nodes && kind != Queues && kind != Definitions || f.has[Tasks] != nil {
		kind = Tasks
	}
	if m := f.has[kind]; m != nil {
		return m, nil
	}
	m := NewMemory()
	if err := f.read(ctx, kind, func(r *events.Record) error { m.Add(r); return nil }); err != nil {
		return nil, err
	}
	m.at, f.has[kind] = f.at, m
	return m, nil
}

// Folded is the past of which everything may be asked, limits among it.
type Folded struct {
	*World
	*Folding
}

var (
	_ View    = Folded{}
	_ Limited = Folded{}
)

// Past is the past of a model, with the facts about single things.
func (f *Folding) Past(facts Facts) Folded { return Folded{At(f, facts, f.at.Seq), f} }

// Standing implements [Limited]. It folds everything.
func (f Folded) Standing(ctx context.Context, id task.ID, holders int) (*quota.Standing, error) {
	known, _, err := LimiterOf(ctx, f.Folding, f.Folding)
	if err != nil {
		return nil, err
	}
	s, ok := known.Standing(id, f.at.At, holders)
	if !ok {
		return nil, nil
	}
	return &s, nil
}

// Fold folds what will be asked for.
func (f *Folding) Fold(ctx context.Context, kinds ...Kind) error {
	for _, kind := range kinds {
		if _, err := f.of(ctx, kind); err != nil {
			return err
		}
	}
	return nil
}

// Point implements [Model].
func (f *Folding) Point(context.Context) (Point, error) { return f.at, nil }

// List implements [Model].
func (f *Folding) List(ctx context.Context, q Query) (Page, error) {
	m, err := f.of(ctx, q.Kind)
	if err != nil {
		return Page{}, err
	}
	return m.List(ctx, q)
}

// Count implements [Model].
func (f *Folding) Count(ctx context.Context, q Query) (Counts, error) {
	m, err := f.of(ctx, Tasks)
	if err != nil {
		return Counts{}, err
	}
	return m.Count(ctx, q)
}

// Oldest implements [Summed].
func (f *Folding) Oldest(ctx context.Context) (map[string]time.Time, error) {
	m, err := f.of(ctx, Tasks)
	if err != nil {
		return nil, err
	}
	return m.Oldest(ctx)
}

// LastOfJobs implements [Summed].
func (f *Folding) LastOfJobs(ctx context.Context) (map[string]task.Task, uint64, error) {
	m, err := f.of(ctx, Tasks)
	if err != nil {
		return nil, 0, err
	}
	return m.LastOfJobs(ctx)
}

// Schedules implements [Summed].
func (f *Folding) Schedules(ctx context.Context, since time.Time) (map[string]*Ticks, uint64, error) {
	m, err := f.of(ctx, Tasks)
	if err != nil {
		return nil, 0, err
	}
	return m.Schedules(ctx, since)
}

// EachLimited implements [Summed].
func (f *Folding) EachLimited(ctx context.Context, each func(*task.Task, *task.Grant)) (quota.Used, uint64, error) {
	m, err := f.of(ctx, Tasks)
	if err != nil {
		return quota.Used{}, 0, err
	}
	return m.EachLimited(ctx, each)
}
