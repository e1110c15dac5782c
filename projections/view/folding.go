package view

import (
	"context"
	"errors"
	"sync"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/quota"
)

// Folding is a model of a place in the log that asks its index. What the index cannot answer it
// folds lazily: for nodes, queues and definitions only their own facts, for any other question the
// whole log up to the place. It keeps what it folds, and all nodes, queues and definitions.
type Folding struct {
	at    Point
	read  func(ctx context.Context, kind Kind, each func(*events.Record) error) error
	index Index // nil if there is none
	mu    sync.Mutex
	has   map[Kind]*Memory // guarded by mu; the one under Tasks has everything
}

var (
	_ Model  = (*Folding)(nil)
	_ Summed = (*Folding)(nil)
	_ Tracer = (*Folding)(nil)
)

// NewFolding returns a model of a place in the log. Read passes on the facts of the log up to
// there, in order: for nodes, queues or definitions only theirs, for [Tasks] all. Index is asked
// before reading; nil if there is none.
func NewFolding(at Point, read func(ctx context.Context, kind Kind, each func(*events.Record) error) error, index Index) *Folding {
	return &Folding{at: at, read: read, index: index, has: map[Kind]*Memory{}}
}

// of returns the fold for a kind.
func (f *Folding) of(ctx context.Context, kind Kind) (*Memory, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !kind.Few() || f.has[Tasks] != nil {
		kind = Tasks
	}
	if m := f.has[kind]; m != nil {
		return m, nil
	}
	m := NewMemory()
	if err := f.fill(ctx, kind, m); err != nil {
		return nil, err
	}
	m.at, f.has[kind] = f.at, m
	return m, nil
}

// fill fills an empty fold for a kind.
func (f *Folding) fill(ctx context.Context, kind Kind, m *Memory) error {
	if f.index != nil && kind.Few() {
		page, err := f.index.List(ctx, Query{Kind: kind})
		if !errors.Is(err, ErrUnindexed) {
			m.take(&page)
			return err
		}
	}
	return f.read(ctx, kind, func(r *events.Record) error { m.Add(r); return nil })
}

// Know has the model take a list of all nodes, queues or definitions at its place for their fold.
func (f *Folding) Know(kind Kind, all *Page) {
	m := NewMemory()
	m.take(all)
	f.mu.Lock()
	defer f.mu.Unlock()
	m.at, f.has[kind] = f.at, m
}

// Folded is the past, about which every question can be answered, limits included.
type Folded struct {
	*World
	*Folding
}

var (
	_ Staged  = Folded{}
	_ View    = Folded{}
	_ Limited = Folded{}
	_ Stepper = Folded{}
	_ Runner  = Folded{}
)

// Past is the past of a model, with the facts about single subjects that its index does not tell.
func (f *Folding) Past(facts Facts) Folded {
	if f.index != nil {
		facts = indexed{f.index, facts}
	}
	return Folded{At(f, facts, f.at.Seq), f}
}

// indexed are the facts that an index tells, else those of another source.
type indexed struct {
	index Index
	Facts
}

// About implements [Facts].
func (i indexed) About(ctx context.Context, ref Ref) ([]events.Record, error) {
	if err := ref.Validate(); err != nil {
		return nil, err
	}
	about, err := i.index.About(ctx, ref)
	if errors.Is(err, ErrUnindexed) {
		about, err = i.Facts.About(ctx, ref)
	}
	return about, err
}

// Get implements [View]. An index knows nodes, queues and definitions without their facts.
func (f Folded) Get(ctx context.Context, ref Ref) (Item, error) {
	if f.index != nil {
		if err := ref.Validate(); err != nil {
			return Item{}, err
		}
		item, err := f.index.Get(ctx, ref)
		if err == nil {
			err = missing(ref, &item, 1)
		}
		if !errors.Is(err, ErrUnindexed) {
			return item, err
		}
	}
	return f.World.Get(ctx, ref)
}

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

// Fold folds some kinds in advance.
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
func (f *Folding) List(ctx context.Context, q Query) (page Page, err error) {
	err = f.tell(ctx, q.Kind, func(i Lists) error { page, err = i.List(ctx, q); return err })
	return page, err
}

// Count implements [Model].
func (f *Folding) Count(ctx context.Context, q Query) (c Counts, err error) {
	err = f.tell(ctx, Tasks, func(i Lists) error { c, err = i.Count(ctx, q); return err })
	return c, err
}

// Oldest implements [Summed].
func (f *Folding) Oldest(ctx context.Context) (oldest map[string]time.Time, err error) {
	err = f.tell(ctx, Tasks, func(i Lists) error { oldest, err = i.Oldest(ctx); return err })
	return oldest, err
}

// LastOfJobs implements [Summed].
func (f *Folding) LastOfJobs(ctx context.Context) (last map[string]task.Task, at uint64, err error) {
	err = f.tell(ctx, Tasks, func(i Lists) error { last, at, err = i.LastOfJobs(ctx); return err })
	return last, at, err
}

// Schedules implements [Summed].
func (f *Folding) Schedules(ctx context.Context, since time.Time) (ticks map[string]*Ticks, at uint64, err error) {
	err = f.tell(ctx, Tasks, func(i Lists) error { ticks, at, err = i.Schedules(ctx, since); return err })
	return ticks, at, err
}

// LastFailed implements [Tracer].
func (f *Folding) LastFailed(ctx context.Context, most int) (last []task.Task, err error) {
	err = f.tell(ctx, Tasks, func(i Lists) error { last, err = i.LastFailed(ctx, most); return err })
	return last, err
}

// Traces implements [Tracer], by the index alone.
func (f *Folding) Traces(ctx context.Context, c Trace, beyond uint64, most int) ([]uint64, error) {
	if f.index == nil {
		return nil, ErrUnindexed
	}
	return f.index.Traces(ctx, c, beyond, most)
}

// EachLimited implements [Summed].
func (f *Folding) EachLimited(ctx context.Context, each quota.Each) (used quota.Used, at uint64, err error) {
	err = f.tell(ctx, Tasks, func(i Lists) error { used, at, err = i.EachLimited(ctx, each); return err })
	return used, at, err
}

// States implements [Staged].
func (f *Folding) States(ctx context.Context, ids []task.ID) (states map[task.ID]task.State, err error) {
	err = f.tell(ctx, Tasks, func(i Lists) error { states, err = i.States(ctx, ids); return err })
	return states, err
}

// Stages implements [Staged].
func (f *Folding) Stages(ctx context.Context, filter Filter, after task.ID, most int) (stages []Stage, err error) {
	err = f.tell(ctx, Tasks, func(i Lists) error { stages, err = i.Stages(ctx, filter, after, most); return err })
	return stages, err
}

// Steps implements [Stepper], by an index alone.
func (f Folded) Steps(ctx context.Context, earlier View, filter Filter, most int) (Steps, error) {
	was, same := earlier.(Folded)
	if !same || was.index == nil || f.index == nil {
		return Steps{}, ErrUnindexed
	}
	index, ok := f.index.(interface {
		Steps(ctx context.Context, earlier Index, f Filter, most int) (Steps, error)
	})
	if !ok {
		return Steps{}, ErrUnindexed
	}
	return index.Steps(ctx, was.index, filter, most)
}

// tell asks the index about tasks, and the fold if the index does not know. Other kinds are all kept.
func (f *Folding) tell(ctx context.Context, kind Kind, ask func(Lists) error) error {
	if f.index != nil && kind == Tasks {
		if err := ask(f.index); !errors.Is(err, ErrUnindexed) {
			return err
		}
	}
	m, err := f.of(ctx, kind)
	if err != nil {
		return err
	}
	return ask(m)
}
