package scheduler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/node"
)

// families tracks the parents that need attention, from the facts of the log.
type families struct {
	*inbox[task.ID]

	mu sync.Mutex
	// deserted are tasks that ran and were stopped together with their children: those spawned by
	// then, and later ones. Guarded by mu.
	deserted map[task.ID]struct{}
}

// maxDeserted bounds how many of those are remembered for later children. A child comes within the
// grace of its parent.
const maxDeserted = 10_000

func newFamilies(l *Deferred) *families { return &families{inbox: newInbox[task.ID](l)} }

// desert records that the children of a task must be stopped.
func (f *families) desert(id task.ID) {
	f.mu.Lock()
	if f.deserted == nil || len(f.deserted) >= maxDeserted {
		f.deserted = map[task.ID]struct{}{}
	}
	f.deserted[id] = struct{}{}
	f.mu.Unlock()
	f.touch(id)
}

// isDeserted tells whether the children of a task must be stopped.
func (f *families) isDeserted(id task.ID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, is := f.deserted[id]
	return is
}

// lives records that a task was reopened.
func (f *families) lives(id task.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.deserted, id)
}

// observe records the ends and reopenings of children, and the changes of parents. The sweep finds
// what it misses.
func (f *families) observe(step *events.Step) {
	is := &step.Is
	id := step.Record.Fact.Task
	if _, expanded := step.Record.Fact.Event.(task.Expanded); expanded || is.State != step.Was.State {
		f.left.Drop(string(id))
	}
	if is.State == step.Was.State {
		return
	}
	if is.Parent != "" && is.State.Terminal() != step.Was.State.Terminal() {
		f.touch(is.Parent)
	}
	if is.Parent != "" && step.Was.State == task.Unknown && f.isDeserted(is.Parent) {
		f.touch(is.Parent) // it was spawned just before its parent was stopped
	}
	switch stopped := is.Epoch > 0 && birth.Deserted(is.State, is.Reason); {
	case stopped:
		f.desert(id)
	case step.Was.State.Terminal():
		f.lives(id)
	}
	if is.Epoch == 0 && (is.State == task.Running || is.State == task.Cancelling) {
		f.touch(id)
	}
}

// gather is how long the ends of children are collected before their parents are examined.
const gather = 20 * time.Millisecond

// followParents examines parents as their children end, until ctx ends. Of those that other
// schedulers should have examined it examines the ones that need action: no fact tells that another
// scheduler examined one and found nothing to do.
func (s *Scheduler) followParents(ctx context.Context) {
	f := s.families
	f.run(ctx, func(id task.ID) bool {
		wanting, err := s.wants(ctx, id)
		return f.left.Mine(string(id)) && (wanting || err != nil)
	}, func() (again []task.ID, after time.Duration) {
		select {
		case <-ctx.Done():
			return nil, 0
		case <-time.After(gather):
		}
		for _, id := range f.take() {
			if err := s.Follow(ctx, id); err != nil && ctx.Err() == nil {
				s.log.Warn("a parent cannot be looked at now; the sweep comes back to it", "error", err, "task", string(id))
			}
		}
		return nil, 0
	})
}

// wants tells whether by the read model a parent needs [Scheduler.Follow].
func (s *Scheduler) wants(ctx context.Context, id task.ID) (bool, error) {
	if s.families.isDeserted(id) {
		ids, err := s.view.Spawned(ctx, id)
		return len(ids) > 0, err
	}
	tasks, err := s.view.Known(ctx, []task.ID{id})
	if err != nil || len(tasks) == 0 {
		return false, err
	}
	t := &tasks[0]
	ends, _, err := s.ends(ctx, t)
	return birth.Wants(t, ends), err
}

// sweepParents examines all parents that have not ended.
func (s *Scheduler) sweepParents(ctx context.Context) error {
	ids, err := s.view.Parents(ctx, batch)
	errs := []error{err}
	for _, id := range ids {
		if !s.turns.First(string(id)) {
			continue
		}
		errs = append(errs, s.Follow(ctx, id))
	}
	return errors.Join(errs...)
}

// Follow does once what a parent needs. It makes children that the submitter has not made; cancels
// the children of a cancelled parent; reopens those of a retried one, and skipped steps that may run
// after all; ends the parent after its children; and reopens it if a child was reopened. Any number
// of schedulers may do so at once.
func (s *Scheduler) Follow(ctx context.Context, id task.ID) error {
	if s.families.isDeserted(id) {
		return s.stopSpawned(ctx, id)
	}
	t, err := s.rec.Load(ctx, id)
	if errors.Is(err, task.ErrUnknown) || err == nil && (!t.Spec.Parental() || t.Waiting()) {
		return nil
	}
	if err != nil {
		return err
	}
	if t.State.Terminal() {
		return s.revive(ctx, t)
	}
	mine := false
	if t.Children == nil && t.State == task.Running {
		if held, err := s.withholds(ctx, &t); err != nil || held {
			return err
		}
		if mine, err = s.desk.Expand(ctx, &t); err != nil {
			return err
		}
	}
	ends, at, err := s.ends(ctx, &t)
	if err != nil {
		return err
	}
	known := maps.Clone(ends)
	unmade, err := s.bear(ctx, &t, ends, mine)
	if err != nil {
		return err
	}
	if t.State == task.Cancelling {
		if err := s.cancelChildren(ctx, &t, ends); err != nil {
			return err
		}
	} else if err := s.reopenChildren(ctx, &t, ends); err != nil {
		return err
	}
	if !maps.Equal(known, ends) { // something was done, or is in the log and not in the view yet
		if ends, at, err = s.ends(ctx, &t); err != nil {
			return err
		}
	}
	return s.conclude(ctx, &t, ends, at, unmade)
}

// ends returns the progress of a parent's children, in detail where the rules need that, and the
// sequence that this reflects.
func (s *Scheduler) ends(ctx context.Context, t *task.Task) (map[task.ID]task.End, uint64, error) {
	ends, at, err := s.view.Ends(ctx, slices.Collect(maps.Values(birth.ChildIDs(t))))
	if err != nil {
		return nil, 0, err
	}
	ids := birth.Details(t, ends)
	if len(ids) == 0 {
		return ends, at, nil
	}
	children, err := s.view.Known(ctx, ids)
	for i := range children {
		ends[children[i].ID] = task.EndOf(&children[i])
	}
	return ends, at, err
}

// conclude ends a parent whose children have all ended, by the view at a sequence. The view will
// report facts that it does not know yet.
func (s *Scheduler) conclude(ctx context.Context, t *task.Task, ends map[task.ID]task.End, at uint64, unmade bool) error {
	id, ids := t.ID, slices.Collect(maps.Values(birth.ChildIDs(t)))
	if unmade {
		birth.Unborn(t, ends)
	}
	command, ok := birth.Follow(t, ends)
	if !ok || len(ids) > 0 && at < t.Seq {
		return nil
	}
	if c, end := command.(task.Conclude); end && t.Children != nil {
		children, err := s.view.Known(ctx, ids)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(children, func(c task.Task) bool { return c.Seq > at }) {
			s.families.touch(id) // the view has moved on since
			return nil
		}
		by := task.By{Seen: at, Unmade: unmade}
		if c, by.Rule = birth.Concluding(t, c, children); by.Rule != "" {
			s.log.Error(c.Message, "task", string(id))
		}
		command = task.Judged{Command: c, By: by}
	}
	_, event, err := s.rec.Do(ctx, *t, task.Unmoved{Command: command, Head: t.Head})
	if errors.Is(err, task.ErrMovedOn) { // it was cancelled at this moment, or ended and reopened
		s.families.touch(id)
		return nil
	}
	if errors.Is(err, task.ErrEnded) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("end parent %s: %w", id, err)
	}
	if event != nil {
		s.log.Info("a parent has ended with its children", "task", string(id), "fact", string(events.TypeOf(event)))
	}
	return nil
}

// stopSpawned passes the cancel of a task on to the children that its program has spawned.
func (s *Scheduler) stopSpawned(ctx context.Context, id task.ID) error {
	children, err := s.view.Spawned(ctx, id)
	if err != nil || len(children) == 0 {
		return err
	}
	t, err := s.rec.Load(ctx, id)
	if err != nil || t.Spec.Parental() || !birth.Deserted(t.State, t.Reason) {
		return err // it was reopened
	}
	asked, err := s.asked(ctx, id)
	if err != nil {
		return err
	}
	var errs []error
	for _, child := range children {
		_, err := s.stopWith(ctx, child, &asked)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// reopenChildren reopens the children of a parent that a retry asks for, skipped steps that may run
// after all, and handlers of steps that were reopened, and updates ends.
func (s *Scheduler) reopenChildren(ctx context.Context, t *task.Task, ends map[task.ID]task.End) error {
	groups := birth.Reopens(t, ends)
	if len(groups) == 0 {
		return nil
	}
	asked, err := s.asked(ctx, t.ID)
	if err != nil {
		return err
	}
	return onChildren(t, groups, ends, func(name string, was task.End) (task.Task, error) {
		child, err := s.reopenChild(ctx, t, name, was, &asked)
		if err != nil {
			err = fmt.Errorf("reopen child %s of %s: %w", name, t.ID, err)
		}
		return child, err
	})
}

// onChildren does something to the children of a parent, one group after the other, and updates ends
// by what they are then.
func onChildren(t *task.Task, groups [][]string, ends map[task.ID]task.End, do func(name string, was task.End) (task.Task, error)) error {
	var mu sync.Mutex // guards ends
	for _, names := range groups {
		if _, err := each(names, func(name string) error {
			id := birth.ChildID(t.ID, name)
			mu.Lock()
			was := ends[id]
			mu.Unlock()
			child, err := do(name, was)
			if err == nil && child.State != task.Unknown {
				mu.Lock()
				defer mu.Unlock()
				ends[id] = task.EndOf(&child)
			}
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// reopenChild reopens a child of a parent if it has not come alive since the end that the read model
// knows, and returns it as it is.
func (s *Scheduler) reopenChild(ctx context.Context, t *task.Task, name string, was task.End, asked *birth.Asked) (task.Task, error) {
	child, err := s.rec.Load(ctx, birth.ChildID(t.ID, name))
	if err != nil || !child.State.Terminal() || child.EndSeq != was.Seq {
		return child, err
	}
	again := task.Reopen{Reason: asked.Because(birth.NeedLives), EndSeq: child.EndSeq}
	if birth.Owes(t, name, was) {
		again.Reason, again.Again = asked.Because(birth.ParentLives), birth.Below(t.Again, &child)
	}
	ctx, done := lasting(ctx)
	defer done()
	child, _, err = s.partOf(asked.Batch).Do(ctx, child, again)
	if errors.Is(err, task.ErrRunning) || errors.Is(err, task.ErrMovedOn) { // another process was faster
		return child, nil
	}
	if err != nil {
		return child, err
	}
	return child, s.rec.Settle(ctx, &child)
}

// revive reopens an ended parent if one of its children was reopened. The read model may lag, so it
// reads the log to be sure.
func (s *Scheduler) revive(ctx context.Context, t task.Task) error {
	ends, at, err := s.ends(ctx, &t)
	if err != nil || at < t.Seq {
		return err
	}
	if _, again := birth.Revive(&t, ends); !again {
		return nil
	}
	for id, e := range ends {
		if e.State.Terminal() {
			continue
		}
		child, err := s.rec.Load(ctx, id)
		if err != nil {
			return err
		}
		if ends[id] = task.EndOf(&child); !child.State.Terminal() {
			break
		}
	}
	command, again := birth.Revive(&t, ends)
	if !again {
		return nil
	}
	_, _, err = s.rec.Do(ctx, t, command)
	if errors.As(err, new(*events.Taken)) {
		return nil // another task has its unique key by now, so the child lives alone
	}
	if errors.Is(err, task.ErrRunning) {
		return nil
	}
	return err
}

// bear makes missing children, and adds to ends what it finds out. It leaves children that another
// process may be about to make to that process for a while. It tells whether some need not be made.
func (s *Scheduler) bear(ctx context.Context, t *task.Task, ends map[task.ID]task.End, mine bool) (unmade bool, err error) {
	if !mine && s.rec.Now().Before(t.Since.Add(s.cfg.Slack)) {
		return false, nil
	}
	var names []string
	for _, name := range birth.Wanting(t, ends) {
		id := birth.ChildID(t.ID, name)
		if !mine {
			child, err := s.rec.Load(ctx, id) // the read model may lag
			if err == nil {
				ends[id] = task.EndOf(&child)
				continue
			}
			if !errors.Is(err, task.ErrUnknown) {
				return unmade, err
			}
			s.repaired(RepairChild, "the submitter has not made this child; the sweep does it", "task", string(t.ID), "child", name)
		}
		if birth.Unmade(t) {
			unmade = true
			continue
		}
		names = append(names, name)
	}
	if err := s.desk.BearChildren(ctx, t, names); err != nil {
		return unmade, err
	}
	for _, name := range names {
		ends[birth.ChildID(t.ID, name)] = task.End{State: task.Pending}
	}
	return unmade, nil
}

// cancelChildren passes the cancel of a parent on to its children: first to those that wait for
// others, so that they are cancelled rather than skipped.
func (s *Scheduler) cancelChildren(ctx context.Context, t *task.Task, ends map[task.ID]task.End) error {
	var live []string
	for _, name := range birth.Stops(t) {
		if e := ends[birth.ChildID(t.ID, name)]; !e.State.Terminal() && e.State != task.Cancelling {
			live = append(live, name)
		}
	}
	if len(live) == 0 {
		return nil
	}
	asked, err := s.asked(ctx, t.ID)
	if err != nil {
		return err
	}
	return onChildren(t, birth.Groups(t, live), ends, func(name string, _ task.End) (task.Task, error) {
		return s.stopWith(ctx, birth.ChildID(t.ID, name), &asked)
	})
}

// asked returns who asked for the latest cancel or retry of a task, and why.
func (s *Scheduler) asked(ctx context.Context, id task.ID) (birth.Asked, error) {
	records, err := s.rec.Log.Task(ctx, id)
	if err != nil {
		return birth.Asked{}, fmt.Errorf("read task %s: %w", id, err)
	}
	history := make([]task.Recorded, len(records))
	for i := range records {
		history[i] = records[i].Task()
	}
	return birth.AskedFor(history, s.rec.Actor), nil
}

// partOf returns a recorder for effects of a bulk command; "" for none.
func (s *Scheduler) partOf(batch string) *events.Recorder {
	rec := *s.rec
	rec.Corr = batch
	return &rec
}

// stopWith stops a task with its parent, as the one who cancelled the parent has asked.
func (s *Scheduler) stopWith(ctx context.Context, id task.ID, asked *birth.Asked) (task.Task, error) {
	return s.stop(ctx, s.partOf(asked.Batch), id, asked.Because(birth.ParentCancelled))
}

// stop asks for a task's end, as an operator does, and returns the resulting task. An unknown or ended
// task is not an error.
func (s *Scheduler) stop(ctx context.Context, rec *events.Recorder, id task.ID, reason string) (task.Task, error) {
	t, err := s.rec.Load(ctx, id)
	if errors.Is(err, task.ErrUnknown) {
		return t, nil
	}
	if err != nil {
		return t, err
	}
	t, _, err = rec.Do(ctx, t, task.Cancel{Reason: reason})
	if errors.Is(err, task.ErrEnded) {
		return t, nil
	}
	return t, err
}

// withholds tells whether the children of a parent that nodes get must wait: its queue is paused, and a pause
// does not hold back what waits for a node by name.
func (s *Scheduler) withholds(ctx context.Context, t *task.Task) (bool, error) {
	if _, own := birth.OwnChildren(t); own {
		return false, nil // they wait in queues
	}
	q, err := s.rec.LoadQueue(ctx, t.QueueName())
	return err == nil && q.PausedAt(s.rec.Now()) != nil, err
}

// withheldFor is how long what a pause held back waits for another look.
const withheldFor = 2 * time.Second

// include gives open parents with late: include a child on each new node, but none while their queue is
// paused.
func (s *Scheduler) include(ctx context.Context, nodes []node.Node, at uint64) error {
	s.watch.withheld = time.Time{}
	ids, err := s.view.Parents(ctx, batch)
	if err != nil {
		return err
	}
	parents, err := s.view.Known(ctx, ids)
	errs := []error{err}
	for i := range parents {
		if t := &parents[i]; t.Spec.Includes() && s.turns.First(string(t.ID)) {
			held, err := s.withholds(ctx, t)
			if held {
				s.watch.withheld = s.rec.Now()
			} else if err == nil {
				err = s.includeIn(ctx, t.ID, nodes, at)
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (s *Scheduler) includeIn(ctx context.Context, id task.ID, nodes []node.Node, at uint64) error {
	t, err := s.rec.Load(ctx, id)
	if err != nil || t.State != task.Running || t.Children == nil {
		return err
	}
	return s.desk.Include(ctx, &t, nodes, at)
}
