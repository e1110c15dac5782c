package client

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"millrace/events"
	"millrace/events/jet/outputs"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/output"
)

// Member is one of the tasks of a whole: the task itself, its children, their children and so on.
type Member struct {
	// Step is its path below the whole; "" for the whole itself.
	Step string
	// Task has only an ID while nothing is known of it.
	Task task.Task
}

// Members reads a task and all its descendants from the log, each parent before its children, which
// come in its order. The error wraps [task.ErrUnknown] if there is no such task.
func (c *Client) Members(ctx context.Context, id task.ID) ([]Member, error) {
	return MembersOf(ctx, c.View(), id)
}

// SubmittedOf returns the ids of a task and those of its members that were submitted.
func SubmittedOf(ctx context.Context, v view.View, id task.ID) (ids []task.ID, err error) {
	members, err := MembersOf(ctx, v, id)
	for i := range members {
		if members[i].Task.State != task.Unknown {
			ids = append(ids, members[i].Task.ID)
		}
	}
	return ids, err
}

// MembersOf is [Client.Members] in a view.
func MembersOf(ctx context.Context, v view.View, id task.ID) ([]Member, error) {
	root, err := view.ExpandedTree(ctx, v, id)
	if err != nil {
		return nil, err
	}
	var all []Member
	var add func(b *view.Branch, step string)
	add = func(b *view.Branch, step string) {
		all = append(all, Member{step, b.Task})
		for i := range b.Branches {
			add(&b.Branches[i], join(step, b.Branches[i].Name))
		}
	}
	add(&root, "")
	return all, nil
}

func join(step, name string) string {
	if step == "" {
		return name
	}
	return step + "/" + name
}

// StepLines is a batch of lines with the step that printed them.
type StepLines struct {
	Step string
	output.Lines
}

// StepRecords is a batch of records with the step that produced them.
type StepRecords struct {
	Step string
	output.Records
}

// OutputOf calls each with the lines that the members of a whole have printed, in the order in
// which they were stored. If there are more than [outputs.MaxTogether] members, those of each group
// of that size come before the next group's.
func (c *Client) OutputOf(ctx context.Context, members []Member, from OutputStart, each func(StepLines) error) error {
	seen := map[uint64]int{}
	return ofMembers(members, func(ids []task.ID, steps map[task.ID]string) error {
		return c.printedOf(ctx, ids, from, false, func(_ uint64, b output.Lines) error {
			if b.Lines = unseen(seen, b); len(b.Lines) == 0 {
				return nil
			}
			return each(StepLines{steps[b.Task], b})
		})
	})
}

// RecordsOf is [Client.OutputOf] for the records that the members have produced, those of fenced
// attempts included. A batch may come twice.
func (c *Client) RecordsOf(ctx context.Context, members []Member, each func(StepRecords) error) error {
	return ofMembers(members, func(ids []task.ID, steps map[task.ID]string) error {
		return c.keptOf(ctx, ids, OutputStart{}, false, func(_ uint64, b output.Records) error {
			return each(StepRecords{steps[b.Task], b})
		})
	})
}

// ofMembers calls read with the members that may have output, in groups small enough to be read
// together.
func ofMembers(members []Member, read func(ids []task.ID, steps map[task.ID]string) error) error {
	steps := map[task.ID]string{}
	var ids []task.ID
	for i := range members {
		if m := &members[i]; m.Task.Children == nil && m.Task.Attempt > 0 {
			steps[m.Task.ID] = m.Step
			ids = append(ids, m.Task.ID)
		}
	}
	for some := range slices.Chunk(ids, outputs.MaxTogether) {
		if err := read(some, steps); err != nil {
			return err
		}
	}
	return nil
}

// unseen returns the lines of a batch that were not seen before; a batch may be stored twice. A
// line that replaces dropped lines has no number.
func unseen(seen map[uint64]int, b output.Lines) []output.Line {
	if b.Dropped > 0 {
		return b.Lines
	}
	first := 0
	for first < len(b.Lines) && b.Lines[first].N <= seen[b.Epoch] {
		first++
	}
	lines := b.Lines[first:]
	if len(lines) > 0 {
		seen[b.Epoch] = lines[len(lines)-1].N
	}
	return lines
}

// FollowWhole calls each with the lines that a task and all its descendants have printed and will
// print, until the task has ended, and changed with all members whenever one has changed. Both are
// called one at a time. All lines are delivered before it returns without an error, those of one
// member in order. The error is as that of [Client.Wait].
func (c *Client) FollowWhole(ctx context.Context, id task.ID, changed func([]Member), each func(StepLines) error) (task.Task, error) {
	w := newWhole(c, id)
	seen := map[uint64]int{}
	w.read = func(ctx context.Context, b *batch, follow bool) error {
		return c.printedOf(ctx, b.ids, outputs.Start{Seq: b.at}, follow, func(seq uint64, l output.Lines) error {
			w.saying.Lock()
			defer w.saying.Unlock()
			b.at = seq
			if l.Lines = unseen(seen, l); len(l.Lines) == 0 {
				return nil
			}
			return each(StepLines{w.steps[l.Task], l})
		})
	}
	return w.run(ctx, changed)
}

// FollowRecords is [Client.FollowWhole] for records. A batch may come twice.
func (c *Client) FollowRecords(ctx context.Context, id task.ID, each func(StepRecords) error) (task.Task, error) {
	w := newWhole(c, id)
	w.read = func(ctx context.Context, b *batch, follow bool) error {
		return c.keptOf(ctx, b.ids, outputs.Start{Seq: b.at}, follow, func(seq uint64, r output.Records) error {
			w.saying.Lock()
			defer w.saying.Unlock()
			b.at = seq
			return each(StepRecords{w.steps[r.Task], r})
		})
	}
	return w.run(ctx, nil)
}

// whole follows a task and all its descendants.
type whole struct {
	c       *Client
	root    task.ID
	read    func(ctx context.Context, b *batch, follow bool) error // reads its members' output
	readers *errgroup.Group
	batches []*batch
	members map[task.ID]*Member
	known   map[task.ID]*events.KnownTask // of each member, what was read of it
	order   []task.ID                     // of members, each after its parent
	fresh   []task.ID                     // members whose output is not read yet
	stops   []func()

	mu    sync.Mutex
	dirty map[task.ID]struct{} // guarded by mu; may have changed
	poke  chan struct{}

	saying sync.Mutex         // held while a callback runs
	steps  map[task.ID]string // guarded by saying
}

func newWhole(c *Client, root task.ID) *whole {
	return &whole{
		c:       c,
		root:    root,
		members: map[task.ID]*Member{},
		known:   map[task.ID]*events.KnownTask{},
		dirty:   map[task.ID]struct{}{},
		poke:    make(chan struct{}, 1),
		steps:   map[task.ID]string{},
	}
}

// run follows the whole to its end.
func (w *whole) run(ctx context.Context, changed func([]Member)) (task.Task, error) {
	defer w.stop()
	reading, stop := context.WithCancel(ctx)
	defer stop()
	w.readers, reading = errgroup.WithContext(reading)
	if err := w.add(w.root, ""); err != nil {
		return task.Task{}, err
	}
	t, err := w.follow(reading, changed)
	stop()
	if read := w.readers.Wait(); read != nil && !errors.Is(read, context.Canceled) && (err == nil || errors.Is(err, context.Canceled)) {
		err = read
	}
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return t, err
	}
	for _, b := range w.batches { // everything was stored before the end was; the rest is there now
		if err := w.read(ctx, b, false); err != nil {
			return t, err
		}
	}
	return t, nil
}

// batch is a group of members whose output is read together, and how far.
type batch struct {
	ids []task.ID
	at  uint64
}

func (w *whole) stop() {
	for _, stop := range w.stops {
		stop()
	}
}

func (w *whole) touch(id task.ID) {
	w.mu.Lock()
	w.dirty[id] = struct{}{}
	w.mu.Unlock()
	select {
	case w.poke <- struct{}{}:
	default:
	}
}

func (w *whole) take() []task.ID {
	w.mu.Lock()
	defer w.mu.Unlock()
	ids := make([]task.ID, 0, len(w.dirty))
	for id := range w.dirty {
		ids = append(ids, id)
	}
	clear(w.dirty)
	return ids
}

// add makes a task a member.
func (w *whole) add(id task.ID, step string) error {
	stop := func() {}
	if w.c.role == "" {
		var err error
		if stop, err = w.c.store.WatchTask(id, func() { w.touch(id) }); err != nil {
			return err
		}
	}
	w.stops = append(w.stops, stop)
	w.members[id], w.known[id] = &Member{Step: step, Task: task.Task{ID: id}}, &events.KnownTask{}
	w.order, w.fresh = append(w.order, id), append(w.fresh, id)
	w.saying.Lock()
	w.steps[id] = step
	w.saying.Unlock()
	w.touch(id)
	return nil
}

// atOnce is how many members are read concurrently.
const atOnce = 16

// lookAtOnce is how many members are read at each [lookAgain] without being told of a change.
const lookAtOnce = 50

// follow reads members as they change, until the whole has ended.
func (w *whole) follow(ctx context.Context, changed func([]Member)) (task.Task, error) {
	again := lookAgain
	if w.c.role != "" { // it is told of nothing
		again = askAgain
	}
	ticker := time.NewTicker(again)
	defer ticker.Stop()
	next := 0 // whose turn it is to be read
	for {
		root := w.members[w.root]
		if err := w.look(ctx); err != nil {
			return root.Task, err
		}
		if changed != nil {
			all := make([]Member, len(w.order))
			for i, id := range w.order {
				all[i] = *w.members[id]
			}
			w.saying.Lock()
			changed(all)
			w.saying.Unlock()
		}
		if ended, err := w.c.ended(ctx, &root.Task); err == nil && ended { // else the server is away: it comes back, or ctx ends
			return root.Task, nil
		}
		select {
		case <-ctx.Done():
			return root.Task, context.Cause(ctx)
		case <-w.c.store.Gone():
			return root.Task, w.c.store.WhyGone()
		case <-w.poke:
		case <-ticker.C:
			w.touch(w.root)
			for range min(len(w.order), lookAtOnce) {
				if m := w.members[w.order[next%len(w.order)]]; !m.Task.State.Terminal() {
					w.touch(m.Task.ID)
				}
				next++
			}
		}
	}
}

// look reads the members that may have changed, until there are none, and starts reading the output
// of new ones: children of one task together.
func (w *whole) look(ctx context.Context) error {
	for ids := w.take(); len(ids) > 0; ids = w.take() {
		tasks := make([]task.Task, len(ids))
		var g errgroup.Group
		g.SetLimit(atOnce)
		for i, id := range ids {
			g.Go(func() (err error) {
				tasks[i], err = w.c.loadOn(ctx, id, w.known[id])
				if err != nil && (id != w.root && errors.Is(err, task.ErrUnknown) || !errors.Is(err, task.ErrUnknown) && ctx.Err() == nil) {
					// Not made yet; or the server is away, and comes back.
					tasks[i], err = task.Task{}, nil
				}
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
		for i := range tasks {
			t := &tasks[i]
			if t.ID == "" {
				continue
			}
			m := w.members[ids[i]]
			if m.Task = *t; t.Children == nil {
				continue
			}
			for _, name := range t.Children.Names {
				if id := birth.ChildID(t.ID, name); w.members[id] == nil {
					if err := w.add(id, join(m.Step, name)); err != nil {
						return err
					}
				}
			}
		}
	}
	for some := range slices.Chunk(w.fresh, outputs.MaxTogether) {
		b := &batch{ids: slices.Clone(some)}
		w.batches = append(w.batches, b)
		w.readers.Go(func() error { return w.read(ctx, b, true) })
	}
	w.fresh = nil
	return nil
}
