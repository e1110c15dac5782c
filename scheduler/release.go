package scheduler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"millrace/task"
)

// Paces of the release of held tasks.
const (
	// atOnce is how many tasks are read, or released on their chains, concurrently.
	atOnce = 64
	// looksAtOnce is how many held tasks are looked up together.
	looksAtOnce = 512
	// releaseAgain is how long after an error a held task is examined again.
	releaseAgain = time.Second
	// detailed is of how many failed steps a handler is told details, and detailWithin how long these may take.
	detailed     = 3
	detailWithin = 5 * time.Second
	// offerWithin is how long whoever lets a task go has for its offer, before another scheduler places it.
	offerWithin = releaseAgain / 2
)

// errJustGone says that another scheduler has let a task go, and may be about to place its offer.
var errJustGone = errors.New("another scheduler has just let it go")

// release examines held tasks whenever there is news for them, until ctx ends.
func (s *Scheduler) release(ctx context.Context) {
	listed := false
	Poke(s.needs.wake)
	s.needs.run(ctx, func(task.ID) bool { return true }, func() ([]task.ID, time.Duration) {
		var err error
		if !listed {
			err = s.findHeld(ctx)
			listed = err == nil
		}
		failed, why := s.releaseAll(ctx)
		if err = errors.Join(err, why); err == nil || ctx.Err() != nil {
			return nil, 0
		}
		if !errors.Is(err, errJustGone) {
			s.log.Warn("cannot look at held tasks; trying again", "error", err, "tasks", len(failed))
		}
		return failed, releaseAgain
	})
}

// releaseAll examines the held tasks with news, and releases those whose needs are met. It returns
// the tasks that it failed to handle.
func (s *Scheduler) releaseAll(ctx context.Context) (failed []task.ID, err error) {
	for some := range slices.Chunk(s.needs.take(), looksAtOnce) {
		not, why := s.releaseSome(ctx, some)
		if len(not) > 0 {
			s.needs.again(not...)
			failed, err = append(failed, not...), why
		}
	}
	return failed, err
}

// releaseSome examines some held tasks. It returns the tasks that it failed to handle, and the
// error of one of them.
func (s *Scheduler) releaseSome(ctx context.Context, ids []task.ID) (failed []task.ID, err error) {
	s.needs.watch(ids)
	unread, unknown := s.needs.await(ids)
	if len(unread) > 0 {
		if failed, err = s.learnNeeds(ctx, unread); len(failed) == len(ids) {
			return failed, err
		}
		_, more := s.needs.await(unread)
		unknown = append(unknown, more...)
	}
	if lost := s.lookUp(ctx, unknown); lost != nil {
		return ids, lost
	}
	not, why := each(s.needs.decide(ids), func(d decided) error { _, err := s.judge(ctx, &d); return err })
	for _, d := range not {
		failed, err = append(failed, d.id), why
	}
	return failed, err
}

// sideBySide calls do for n numbers, some at once, and returns the errors.
func sideBySide(n, some int, do func(int) error) []error {
	errs := make([]error, n)
	if n == 1 || some == 1 { // which needs no goroutine, and keeps the order
		for i := range n {
			errs[i] = do(i)
		}
		return errs
	}
	var g errgroup.Group
	g.SetLimit(some)
	for i := range n {
		g.Go(func() error { errs[i] = do(i); return nil })
	}
	_ = g.Wait() // errs has them
	return errs
}

// each calls do for all elements, several at once. It returns the elements that failed, and one of
// the errors.
func each[T any](all []T, do func(T) error) (failed []T, err error) {
	for i, why := range sideBySide(len(all), atOnce, func(i int) error { return do(all[i]) }) {
		if why != nil {
			failed, err = append(failed, all[i]), why
		}
	}
	return failed, err
}

// findHeld examines all tasks that were held before this scheduler started.
func (s *Scheduler) findHeld(ctx context.Context) error {
	after := task.ID("")
	for {
		ids, err := s.view.Held(ctx, after, batch)
		if err != nil {
			return err
		}
		s.needs.look(ids...)
		if len(ids) < batch {
			return nil
		}
		after = ids[len(ids)-1]
	}
}

// learnNeeds reads what held tasks need. It returns the tasks that it failed to handle.
func (s *Scheduler) learnNeeds(ctx context.Context, ids []task.ID) (failed []task.ID, err error) {
	tasks, err := s.view.Known(ctx, ids)
	if err != nil {
		return ids, err
	}
	others := make(map[task.ID]bool, len(ids))
	for _, id := range ids {
		others[id] = true
	}
	for i := range tasks {
		if t := &tasks[i]; waitsForNeeds(t) {
			s.needs.learn(*t)
			delete(others, t.ID)
		}
	}
	return each(slices.Collect(maps.Keys(others)), func(id task.ID) error {
		t, err := s.loadHeld(ctx, id)
		if t != nil {
			s.needs.learn(*t)
		}
		return err
	})
}

// waitsForNeeds tells whether a task is held by its needs.
func waitsForNeeds(t *task.Task) bool {
	return t.State == task.Held && t.Needs != nil && slices.Contains(t.Holds, task.HoldNeeds)
}

// loadHeld reads a task, and returns nil if its needs do not hold it. The task is then dropped.
func (s *Scheduler) loadHeld(ctx context.Context, id task.ID) (*task.Task, error) {
	t, err := s.rec.Load(ctx, id)
	switch {
	case errors.Is(err, task.ErrUnknown):
		s.needs.done(id, math.MaxUint64)
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("task %s: %w", id, err)
	case waitsForNeeds(&t):
		return &t, nil
	}
	return nil, s.wasLetGo(ctx, &t)
}

// wasLetGo drops a task that another scheduler let go. If that one did not place the offer, wasLetGo does,
// but not at once: both would, when one has only written the first of two messages.
func (s *Scheduler) wasLetGo(ctx context.Context, t *task.Task) error {
	s.needs.done(t.ID, t.Seq)
	if _, missing := task.NextOffer(t); missing && s.rec.Now().Sub(t.Since).Abs() < offerWithin {
		return errJustGone
	}
	return s.rec.Settle(ctx, t)
}

// lookUp reads the progress of needed tasks. The read model is enough for that: observe gets the
// facts that it does not have yet.
func (s *Scheduler) lookUp(ctx context.Context, ids []task.ID) error {
	if len(ids) == 0 {
		return nil
	}
	tasks, err := s.view.Known(ctx, ids)
	s.needs.found(tasks)
	return err
}

// judge releases a held task on its chain, or ends it. It tells whether there was something to do.
func (s *Scheduler) judge(ctx context.Context, d *decided) (did bool, err error) {
	t := d.birth
	if t == nil {
		if t, err = s.loadHeld(ctx, d.id); t == nil {
			return false, err
		}
	}
	command, err := d.needs.Follow(d.known)
	if _, goes := command.(task.Unhold); goes && t.Handles() {
		s.detail(ctx, t, d.known)
		command, err = d.needs.Follow(d.known)
	}
	if command == nil || err != nil {
		return false, err
	}
	ctx, done := lasting(ctx)
	defer done()
	now, event, err := s.rec.Do(ctx, *t, command)
	if errors.Is(err, task.ErrEnded) || errors.Is(err, task.ErrNotWaiting) || errors.Is(err, task.ErrNotHeld) {
		event, err = nil, nil // another scheduler was faster
	}
	switch {
	case err == nil && event == nil:
		err = s.wasLetGo(ctx, &now)
	case err == nil:
		if err = s.rec.Settle(ctx, &now); err == nil {
			s.needs.done(d.id, now.Seq)
		}
	}
	if err != nil {
		return false, fmt.Errorf("task %s: %w", d.id, err)
	}
	return event != nil, nil
}

// detail adds to what a handler is told of the only step before it, or of the first that failed. It leaves out what
// cannot be read: a handler that knows less is better than one that waits.
func (s *Scheduler) detail(ctx context.Context, t *task.Task, known []task.Input) {
	ctx, cancel := context.WithTimeout(ctx, detailWithin)
	defer cancel()
	left := detailed
	for i := range known {
		if len(known) > 1 && !known[i].State.Failed() || left == 0 {
			continue
		}
		left--
		of, err := s.rec.Load(ctx, t.Needs.Of[i].Task)
		if err == nil {
			known[i].Detail = task.DetailOf(&of)
			if s.cfg.Tell != nil {
				known[i].Lines, known[i].Link, err = s.cfg.Tell(ctx, of.ID)
			}
		}
		if err != nil {
			s.log.Warn("a handler is told less of the end that it handles", "task", string(t.ID), "after", string(t.Needs.Of[i].Task), "error", err)
		}
	}
}
