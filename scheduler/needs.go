package scheduler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"millrace/events"
	"millrace/task"
)

// needs lets tasks go that wait for others. An end that it is told of is looked up
// among those who wait for it, so nothing is asked again and again. It keeps in memory
// who waits for whom; the log has the rest.
type needs struct {
	wake chan struct{} // there is somebody to look at
	busy chan struct{} // holds one: somebody who is waited for is on the way, so news are urgent

	observed atomic.Uint64 // the latest that was told

	mu      sync.Mutex
	waiting map[task.ID]*held            // guarded by mu; those that are held
	wanted  map[task.ID]map[task.ID]bool // guarded by mu; by whom a task is needed
	known   map[task.ID]*task.Task       // guarded by mu; how far those have come, as the latest word has it
	look    map[task.ID]bool             // guarded by mu; held tasks to look at
	births  int                          // guarded by mu; how many are kept in waiting
	under   map[task.ID]bool             // guarded by mu; those that are needed and under way: offered, or running
}

// held is a task that waits for others.
type held struct {
	of []task.ID // those, once it is known how far each of them has come
	// birth is the task as it was born, if that is all that has happened to it and
	// there is room for it: so it need not be read again.
	birth *task.Task
	// needs are those of a birth for which there is no room: so it is read only to let it go.
	needs *task.Needs
	// told is whether the log's order says that it is held: then it has not ended, and its end will be told.
	told bool
}

// maxBirths is how many births are kept in memory, at about 1 kB each.
const maxBirths = 100_000

func newNeeds() *needs {
	return &needs{
		wake: make(chan struct{}, 1), busy: make(chan struct{}, 1), under: map[task.ID]bool{}, waiting: map[task.ID]*held{}, wanted: map[task.ID]map[task.ID]bool{},
		known: map[task.ID]*task.Task{}, look: map[task.ID]bool{},
	}
}

// observe implements reactor.
func (n *needs) observe(s *events.Step) {
	n.observed.Store(s.Record.Seq)
	if s.Is.State == task.Unknown || s.Is.State == s.Was.State {
		return
	}
	id := s.Record.Fact.Task
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case s.Is.State == task.Held:
		n.hold(id, s.Record)
	case s.Was.State == task.Held:
		n.forget(id)
	}
	n.goes(id, s.Is.State)
	by := n.wanted[id]
	if len(by) == 0 {
		return
	}
	if !s.Is.State.Terminal() {
		if s.Was.State.Terminal() { // it has another life
			n.known[id] = &task.Task{ID: id, State: s.Is.State, Seq: s.Record.Seq}
		}
		return
	}
	end := &task.Task{ID: id, State: s.Is.State, Reason: s.Is.Reason, Seq: s.Record.Seq}
	n.known[id] = end
	switch e := s.Record.Fact.Event.(type) {
	case task.AttemptFinished:
		end.Result = bytes.Clone(e.Result)
	case task.Concluded:
		end.Result = bytes.Clone(e.Result)
	}
	for waiter := range by {
		n.add(waiter)
	}
}

// goes notes whether a task is under way for which others wait. It is called with mu held.
func (n *needs) goes(id task.ID, state task.State) {
	if (state == task.Pending || state == task.Running) && len(n.wanted[id]) > 0 {
		n.under[id] = true
		signal(n.busy)
	} else {
		delete(n.under, id)
	}
}

// crowded tells whether what comes next in the log may be what somebody waits for.
func (n *needs) crowded() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.under) > 0
}

// hold notes that a task is held, if it may be by what it needs. It is called with mu held.
func (n *needs) hold(id task.ID, r *events.Record) {
	e, born := r.Fact.Event.(task.Submitted)
	if born && e.Needs == nil {
		return
	}
	h := &held{told: true}
	if born {
		h.needs = e.Needs
	}
	if born && n.births < maxBirths {
		t := task.Evolve(task.Task{ID: id}, task.Recorded{Seq: r.Seq, At: r.Fact.At, Event: e})
		h.birth = &t
		n.births++
	}
	n.forget(id)
	n.waiting[id] = h
	n.add(id)
}

// lookAt asks for tasks to be looked at.
func (n *needs) lookAt(ids ...task.ID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.add(ids...)
}

// add is lookAt with mu held.
func (n *needs) add(ids ...task.ID) {
	for _, id := range ids {
		n.look[id] = true
	}
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// done forgets a task that waits no more.
func (n *needs) done(id task.ID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.forget(id)
	n.goes(id, task.Pending) // the read model will know in a moment what has become of it
}

// forget is called with mu held.
func (n *needs) forget(id task.ID) {
	delete(n.look, id)
	h := n.waiting[id]
	if h == nil {
		return
	}
	if h.birth != nil {
		n.births--
	}
	for _, of := range h.of {
		delete(n.wanted[of], id)
		if len(n.wanted[of]) == 0 {
			delete(n.wanted, of)
			delete(n.known, of)
			delete(n.under, of)
		}
	}
	delete(n.waiting, id)
}

// drop forgets a task of which only a look has said that it waits, and which does not.
func (n *needs) drop(id task.ID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if h := n.waiting[id]; h != nil && !h.told {
		n.forget(id)
	}
}

// take returns who is to be looked at, and clears the list.
func (n *needs) take() []task.ID {
	n.mu.Lock()
	defer n.mu.Unlock()
	ids := slices.Sorted(maps.Keys(n.look)) // as they were submitted
	clear(n.look)
	return ids
}

// born returns a held task as it was born, or no more of it than what it needs if whole is
// false; nil if not even that is kept.
func (n *needs) born(id task.ID) (t *task.Task, whole bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.waiting[id]
	switch {
	case h == nil:
		return nil, false
	case h.birth != nil:
		return h.birth, true
	case h.needs != nil:
		return &task.Task{ID: id, Work: task.Work{Needs: h.needs}}, false
	}
	return nil, false
}

// await notes what a held task needs, so that no end of it is missed from now on,
// and returns those of its needs of which nothing is known. The second time it
// returns none: whatever has happened to them since, observe was told.
func (n *needs) await(t *task.Task) (missing []task.ID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.waiting[t.ID]
	if h == nil {
		h = &held{}
		n.waiting[t.ID] = h
	}
	if h.of != nil {
		return nil
	}
	h.of = make([]task.ID, len(t.Needs.Of))
	for i, need := range t.Needs.Of {
		h.of[i] = need.Task
		if n.wanted[need.Task] == nil {
			n.wanted[need.Task] = map[task.ID]bool{}
		}
		n.wanted[need.Task][t.ID] = true
		if h := n.waiting[need.Task]; n.known[need.Task] == nil && (h == nil || !h.told) {
			missing = append(missing, need.Task)
		}
	}
	return missing
}

// found notes how far a task has come, unless a later word is known: what was read may be older
// than what observe was told meanwhile.
func (n *needs) found(t *task.Task) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if known := n.known[t.ID]; len(n.wanted[t.ID]) == 0 || known != nil && known.Seq >= t.Seq {
		return
	}
	n.goes(t.ID, t.State)
	n.known[t.ID] = &task.Task{ID: t.ID, State: t.State, Reason: t.Reason, Result: t.Result, Seq: t.Seq}
}

// ends returns how far the tasks that t needs have come.
func (n *needs) ends(t *task.Task) ([]task.End, []task.Task) {
	n.mu.Lock()
	defer n.mu.Unlock()
	ends, tasks := make([]task.End, len(t.Needs.Of)), make([]task.Task, len(t.Needs.Of))
	for i, need := range t.Needs.Of {
		tasks[i] = task.Task{ID: need.Task}
		if e := n.known[need.Task]; e != nil {
			ends[i], tasks[i] = task.End{State: e.State, Reason: e.Reason}, *e
		}
	}
	return ends, tasks
}

// atOnce is how many held tasks are looked at side by side.
const atOnce = 64

// release looks at held tasks whenever something has happened that they wait for,
// until ctx ends.
func (s *Scheduler) release(ctx context.Context) error {
	if err := s.findHeld(ctx); err != nil && ctx.Err() == nil {
		s.log.Warn().Err(err).Msg("cannot list what is held; the sweep will")
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.needs.wake:
		}
		err := s.Release(ctx)
		if err == nil {
			continue
		}
		if ctx.Err() == nil {
			s.log.Warn().Err(err).Msg("cannot look at a held task; trying again")
		}
		select {
		case <-ctx.Done():
		case <-time.After(releaseAgain):
		}
	}
}

// releaseAgain is how long after an error held tasks are looked at again.
const releaseAgain = time.Second

// Release looks once at the held tasks for which something has happened that it was
// told of, and lets those go that have got what they need.
func (s *Scheduler) Release(ctx context.Context) error {
	var g errgroup.Group
	g.SetLimit(atOnce)
	for _, id := range s.needs.take() {
		g.Go(func() error {
			if err := s.considerNow(ctx, id); err != nil {
				s.needs.done(id) // what was noted of it may not be all
				s.needs.lookAt(id)
				return fmt.Errorf("task %s: %w", id, err)
			}
			return nil
		})
	}
	return g.Wait()
}

// findHeld looks at all that was held before this scheduler came.
func (s *Scheduler) findHeld(ctx context.Context) error {
	after := task.ID("")
	for {
		ids, err := s.view.Held(ctx, after, batch)
		if err != nil {
			return err
		}
		s.needs.lookAt(ids...)
		if len(ids) < batch {
			return nil
		}
		after = ids[len(ids)-1]
	}
}

// considerNow looks at a held task because something has happened.
func (s *Scheduler) considerNow(ctx context.Context, id task.ID) error {
	t, whole := s.needs.born(id)
	if t != nil {
		if err := s.lookUp(ctx, s.needs.await(t)); err != nil {
			return err
		}
		ends, _ := s.needs.ends(t)
		if verdict, _ := t.Needs.Judge(ends); verdict == task.NotYet {
			return nil
		}
	}
	if !whole {
		var err error
		if t, err = s.loadHeld(ctx, id); err != nil {
			return err
		}
		if t == nil {
			s.needs.done(id)
			return nil
		}
		if err := s.lookUp(ctx, s.needs.await(t)); err != nil {
			return err
		}
	}
	return s.judge(ctx, t)
}

// loadHeld reads a task, and returns nil if it is not held by its needs.
func (s *Scheduler) loadHeld(ctx context.Context, id task.ID) (*task.Task, error) {
	t, err := s.rec.Load(ctx, id)
	if errors.Is(err, task.ErrUnknown) {
		return nil, nil
	}
	if err != nil || t.State != task.Held || t.Needs == nil || !slices.Contains(t.Holds, task.HoldNeeds) {
		return nil, err
	}
	return &t, nil
}

// lookUp finds out how far tasks have come that others need. The read model does for
// that: whatever is not part of it yet, observe will be told.
func (s *Scheduler) lookUp(ctx context.Context, ids []task.ID) error {
	if len(ids) == 0 {
		return nil
	}
	tasks, err := s.view.Known(ctx, ids)
	for i := range tasks {
		s.needs.found(&tasks[i])
	}
	return err
}

// judge lets a held task go, or ends it, if what is known of its needs says so.
func (s *Scheduler) judge(ctx context.Context, t *task.Task) error {
	ends, tasks := s.needs.ends(t)
	verdict, why := t.Needs.Judge(ends)
	var command task.Command
	switch verdict {
	case task.NotYet:
		return nil
	case task.Never:
		command = task.Skip{Reason: why}
	case task.Met:
		inputs, err := t.Needs.Inputs(tasks)
		if err != nil {
			return err
		}
		command = task.Unhold{Hold: task.HoldNeeds, Reason: why, Inputs: inputs}
	}
	now, _, err := s.rec.Do(ctx, *t, command)
	faster := errors.Is(err, task.ErrEnded) || errors.Is(err, task.ErrNotWaiting) || errors.Is(err, task.ErrNotHeld)
	if err == nil || faster {
		s.needs.done(t.ID)
	}
	if faster {
		return nil // and makes its offer
	}
	if err != nil {
		return err
	}
	return s.rec.Settle(ctx, now)
}

// heldPerSweep is how many tasks a sweep reads to see whether a held one should have gone.
const heldPerSweep = 500

// sweepHeld looks at some of the held tasks as if nothing were known, and at others
// the next time. What has been free to go for longer than a step may take is a repair; so what
// was found free is looked at by each sweep.
func (s *Scheduler) sweepHeld(ctx context.Context) error {
	page, err := s.view.Held(ctx, s.heldAfter, heldPerSweep)
	if err != nil {
		return err
	}
	free := s.heldFree
	s.heldFree = nil
	for _, id := range free {
		if _, err := s.sweepOneHeld(ctx, id); err != nil {
			return err
		}
	}
	last, read := task.ID(""), 0
	for _, id := range page {
		if last, read = id, read+1; read > heldPerSweep {
			break
		}
		if slices.Contains(free, id) {
			continue
		}
		of, err := s.sweepOneHeld(ctx, id)
		if err != nil {
			return err
		}
		read += of
	}
	if s.heldAfter = last; read <= heldPerSweep && len(page) < heldPerSweep {
		s.heldAfter = "" // from the beginning again
	}
	return nil
}

// sweepOneHeld looks at one held task, and returns how many others that took.
func (s *Scheduler) sweepOneHeld(ctx context.Context, id task.ID) (read int, err error) {
	t, err := s.loadHeld(ctx, id)
	if err != nil {
		return 0, err
	}
	if t == nil {
		s.needs.drop(id)
		return 0, nil
	}
	s.needs.await(t)
	of := make([]task.ID, len(t.Needs.Of))
	for i, need := range t.Needs.Of {
		of[i] = need.Task
	}
	if err := s.lookUp(ctx, of); err != nil {
		return len(of), err
	}
	ends, _ := s.needs.ends(t)
	if verdict, _ := t.Needs.Judge(ends); verdict == task.NotYet {
		return len(of), nil
	}
	if !s.missedLong(t, s.rec.Now()) {
		s.heldFree = append(s.heldFree, id)
		return len(of), nil
	}
	s.repairs.add(RepairHold, 1)
	s.log.Warn().Str("task", string(id)).Msg("what it needs has ended, and it is still held; the sweep lets it go")
	return len(of), s.judge(ctx, t)
}
