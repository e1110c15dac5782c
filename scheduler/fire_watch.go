package scheduler

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"millrace/events"
	"millrace/scheduler/turns"
	"millrace/task"
	"millrace/task/definition"
	"millrace/task/schedule"
)

// Of ticks on which nobody decides.
const (
	// tickPatience is how long after a tick is due its decision, and after the decision its task,
	// may be missing before another scheduler sees to it. The one that holds the fire goes first and needs some ten
	// milliseconds; the others hear of it as soon as their read models do, and have an order among them.
	tickPatience = 500 * time.Millisecond
	// tickLook is how often ticks are looked at, and tickAgain how long a scheduler waits until it
	// sees to the same one once more.
	tickLook, tickAgain = 50 * time.Millisecond, time.Second
	// tickHands is how many are seen to at once, and tickBatch how many at one look. After a moment in
	// which thousands of ticks are due most are in good hands, and these take little from those.
	tickHands, tickBatch = 8, 64
)

// tickWatch knows of each schedule which tick comes next, and whether the latest one that was
// decided on has its task. One scheduler holds a fire, and for seconds the log gives it to no other.
// Should that one die, the others find here what it has left undone, and do it. They need not know
// whether it lives: a tick gets one decision and a task one birth, whoever comes first.
type tickWatch struct {
	now     func() time.Time
	turns   *turns.Turns
	waiting names // schedules of which ticks wait for the tasks of earlier ones

	mu      sync.Mutex
	known   map[string]decidedTick // guarded by mu, like all below; by schedule
	unborn  map[task.ID]bool       // tasks that were decided on and not seen yet
	changed map[string]bool        // schedules of which a decision came
	held    map[string]int         // how many fires of a schedule this scheduler holds
	due     byTime[*watchedTick]
}

// decidedTick is the latest decision on a tick of a schedule.
type decidedTick struct {
	seq  uint64
	last time.Time // the latest tick on which anything was decided
}

// watchedTick is a tick that is to be looked at, at a time.
type watchedTick struct {
	schedule string
	tick     schedule.Tick
	born     task.ID // the task that it is to have by then; "" if a decision is to be there
	at       time.Time
	left     bool // to the schedulers that go before this one
}

func newTickWatch(now func() time.Time, turns *turns.Turns) *tickWatch {
	return &tickWatch{now: now, turns: turns, known: map[string]decidedTick{}, unborn: map[task.ID]bool{}, changed: map[string]bool{}, held: map[string]int{}}
}

// observe implements [reactor].
func (w *tickWatch) observe(s *events.Step) {
	switch s.Record.Kind {
	case events.KindTick:
		w.decided(s.Record)
	case events.KindOffer, events.KindHold, events.KindChain:
		if _, birth := s.Record.Fact.Event.(task.Submitted); birth {
			w.bear(s.Record.Fact.Task)
		}
	}
}

// decided notes a decision; one that is older than what is known changes nothing.
func (w *tickWatch) decided(r *events.Record) {
	name := r.Fact.Schedule
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.Seq <= w.known[name].seq {
		return
	}
	ledger := schedule.LedgerOf(r.Fact.Event)
	w.known[name] = decidedTick{r.Seq, ledger.Last}
	if len(ledger.Waiting) > 0 {
		w.waiting.add(name)
	} else {
		w.waiting.drop(name)
	}
	w.changed[name] = true
	// A read model that is made anew tells of decisions of long ago.
	if e, ok := r.Fact.Event.(definition.ScheduleAdmitted); ok && w.now().Sub(r.Stored) < schedule.Grace {
		w.unborn[e.Made] = true
		heap.Push(&w.due, &watchedTick{schedule: name, tick: schedule.Tick{At: e.Tick, Due: e.Due}, born: e.Made, at: r.Stored.Add(tickPatience)})
	}
}

// bear notes that a task was born.
func (w *tickWatch) bear(id task.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.unborn, id)
}

// hold notes by how many the fires of a schedule that this scheduler holds become more.
func (w *tickWatch) hold(name string, more int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held[name] += more; w.held[name] <= 0 {
		delete(w.held, name)
	}
}

// expect finds the next tick of each schedule of which the definition or the latest decision is new.
func (w *tickWatch) expect(from *plans) {
	w.mu.Lock()
	changed := w.changed
	w.changed = map[string]bool{}
	w.mu.Unlock()
	fresh := from.fresh(changed)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range fresh {
		if next, ok := p.plan.Next(later(p.Since, w.known[p.Name].last)); ok {
			heap.Push(&w.due, &watchedTick{schedule: p.Name, tick: next, at: next.Due.Add(tickPatience)})
		}
	}
}

// late takes out some of what is to be looked at by now and is still undone.
func (w *tickWatch) late(now time.Time) (some []*watchedTick) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.due) > 0 && !w.due[0].at.After(now) && len(some) < tickBatch {
		it := heap.Pop(&w.due).(*watchedTick)
		switch {
		case !w.undone(it):
		case now.Sub(it.tick.Due) > schedule.Grace/2:
			delete(w.unborn, it.born) // somebody was away for long: the fire and the sweep know what is owed
		case w.held[it.schedule] > 0: // it is on its way, here
			it.at = now.Add(tickPatience)
			heap.Push(&w.due, it)
		default:
			if wait := w.turns.Wait(it.schedule); wait > 0 && !it.left {
				it.at, it.left = it.at.Add(wait), true
				heap.Push(&w.due, it)
				continue
			}
			some = append(some, it)
		}
	}
	return some
}

// undone tells whether what is wanted is not known to be there. The caller holds w.mu.
func (w *tickWatch) undone(it *watchedTick) bool {
	if it.born != "" {
		return w.unborn[it.born]
	}
	return w.known[it.schedule].last.Before(it.tick.At)
}

// again has a tick looked at once more.
func (w *tickWatch) again(it *watchedTick, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	it.at = at
	heap.Push(&w.due, it)
}

// watch sees to ticks that others have left undone, until ctx ends.
func (f *firing) watch(ctx context.Context) {
	tick := time.NewTicker(tickLook)
	defer tick.Stop()
	for seeded := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !seeded {
			if seeded = f.seed(ctx) == nil; !seeded {
				continue
			}
		}
		w := f.s.ticks
		w.expect(&f.s.plans)
		some := w.late(f.clock.At(time.Now()))
		if len(some) == 0 {
			continue
		}
		var seeing errgroup.Group
		seeing.SetLimit(tickHands)
		for _, it := range some {
			seeing.Go(func() error {
				if err := f.s.see(ctx, it); err != nil && ctx.Err() == nil {
					f.s.log.Debug("a tick that was left undone could not be dealt with", "error", err, "schedule", it.schedule)
				}
				w.again(it, f.clock.At(time.Now()).Add(tickAgain))
				return nil
			})
		}
		_ = seeing.Wait() // none fails
	}
}

// seed notes what the log holds at the start: its time, and the latest decisions.
func (f *firing) seed(ctx context.Context) error {
	now, err := f.s.cfg.Ticks.Time(ctx)
	if err != nil {
		return err
	}
	f.clock.Hear(now, time.Now())
	all, err := f.s.plans.list(ctx, time.Now())
	if err != nil {
		return err
	}
	names := make([]string, len(all))
	for i, p := range all {
		names[i] = p.Name
	}
	last, err := f.s.cfg.Schedules.LastDecisions(ctx, names)
	for _, r := range last {
		f.s.ticks.decided(&r)
	}
	return err
}

// see does for a tick what its fire would have led to, if that is still to do.
func (s *Scheduler) see(ctx context.Context, it *watchedTick) error {
	s.ticks.mu.Lock()
	undone := s.ticks.undone(it)
	s.ticks.mu.Unlock()
	if !undone {
		return nil
	}
	t, err := s.ticker(ctx, it.schedule, time.Now())
	if err != nil || t == nil {
		return err
	}
	t.again = true
	if it.born != "" {
		if err = t.repeat(ctx, it.tick.At); err == nil {
			s.ticks.bear(it.born) // or it cannot be
		}
		return err
	}
	s.ticks.decided(&t.last)
	if next, ok := t.plan.Next(later(t.stored.Since, t.ledger().Last)); !ok || !next.At.Equal(it.tick.At) {
		return nil // it was decided on, or the schedule is another one by now
	}
	s.log.Info("deciding on a tick that another scheduler has left undone", "schedule", it.schedule, "tick", it.tick.At)
	rest, err := t.fired(ctx, &events.Record{Stored: it.tick.Due, Kind: events.KindFire, Fact: events.Fact{
		Schedule: it.schedule, Event: definition.ScheduleFired{Revision: t.stored.Revision, Tick: it.tick.At, Due: it.tick.Due, Detail: it.tick.Note},
	}})
	if err == nil && rest != nil {
		err = rest(ctx)
	}
	return err
}
