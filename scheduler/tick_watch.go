package scheduler

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"millrace/events"
	"millrace/task"
	"millrace/task/schedule"
	"millrace/task/value"
)

// Settings for overdue ticks.
const (
	// tickPatience is how long after its due time a tick may lack its decision, and after the
	// decision its task, before another scheduler steps in. The holder of the fire goes first and
	// needs some 10 ms. The others learn of it through their read models, and have an order among
	// them.
	tickPatience = 500 * time.Millisecond
	// tickLook is the interval of the checks. tickAgain is how long a scheduler waits before it
	// handles the same tick again.
	tickLook, tickAgain = 50 * time.Millisecond, time.Second
	// tickHands is how many ticks are handled concurrently, and tickBatch how many per check. After
	// a moment with thousands of due ticks, the pipeline of fires handles most of them, and these
	// checks take little capacity from it.
	tickHands, tickBatch = 8, 64
)

// tickWatch tracks, for each schedule, the next tick, and whether the latest decided one has its
// task. One scheduler holds a fire, and for some seconds the log gives it to no other. If that
// scheduler dies, the others find its unfinished work here and complete it. They need not know
// whether it lives: a tick gets one decision and a task one birth, whichever comes first.
type tickWatch struct {
	now   func() time.Time
	turns *Precedence

	mu      sync.Mutex
	known   map[string]latestDecision // guarded by mu, like all below; by schedule
	unborn  map[task.ID]bool          // tasks that were admitted and are not born yet
	changed map[string]bool           // schedules with a new decision
	waiting map[string]bool           // schedules with ticks that wait for the tasks of earlier ones
	held    map[string]int            // how many fires of a schedule this scheduler holds
	due     value.Heap[*watchedTick]
}

// latestDecision is the latest known decision on a tick of a schedule.
type latestDecision struct {
	seq   uint64
	at    time.Time // of the fact
	event any       // not modified
}

// last is the latest tick with a decision.
func (d latestDecision) last() time.Time { return schedule.LedgerOf(d.event).Last }

// watchedTick is a tick to be checked at a time.
type watchedTick struct {
	schedule string
	tick     schedule.Tick
	born     task.ID // the task that it must have by then; "" if a decision must exist
	at       time.Time
	lapsed   bool // it was due before a pause, and must have a decision
	left     bool // it was left to the schedulers that go first
}

func newTickWatch(now func() time.Time, turns *Precedence) *tickWatch {
	return &tickWatch{
		due:     value.Heap[*watchedTick]{Before: func(a, b *watchedTick) bool { return a.at.Before(b.at) }},
		now:     now,
		turns:   turns,
		known:   map[string]latestDecision{},
		unborn:  map[task.ID]bool{},
		changed: map[string]bool{},
		waiting: map[string]bool{},
		held:    map[string]int{},
	}
}

// observe implements [reactor].
func (w *tickWatch) observe(s *events.Step) {
	switch s.Record.Kind {
	case events.KindTick:
		w.decided(s.Record)
	case events.KindOffer, events.KindHold, events.KindChain:
		if _, birth := s.Record.Fact.Event.(task.Submitted); birth {
			w.born(s.Record.Fact.Task)
		}
	}
}

// forget forgets all decisions: they are told again, from a log that may not have the last ones.
func (w *tickWatch) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.known)
	clear(w.unborn)
}

// decided records a decision. An older one than the known one changes nothing, nor does a message that
// is no fact.
func (w *tickWatch) decided(r *events.Record) {
	name := r.Fact.Schedule
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.Seq <= w.known[name].seq || !r.Readable() {
		return
	}
	ledger := schedule.LedgerOf(r.Fact.Event)
	w.known[name] = latestDecision{r.Seq, r.Fact.At, r.Fact.Event}
	if delete(w.waiting, name); len(ledger.Waiting) > 0 {
		w.waiting[name] = true
	}
	w.changed[name] = true
	// A read model that is rebuilt reports old decisions.
	if e, ok := r.Fact.Event.(task.ScheduleAdmitted); ok && w.now().Sub(r.Stored) < schedule.Grace {
		w.unborn[e.Made] = true
		w.due.Push(&watchedTick{schedule: name, tick: schedule.Tick{At: e.Tick, Due: e.Due}, born: e.Made, at: r.Stored.Add(tickPatience)})
	}
}

// born records that a task was born.
func (w *tickWatch) born(id task.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.unborn, id)
}

// latest returns the latest known decisions of some schedules, with what a [decider] needs of them,
// and the names of the others. Another scheduler may have decided since.
func (w *tickWatch) latest(names []string) (known map[string]events.Record, others []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	known = make(map[string]events.Record, len(names))
	for _, name := range names {
		if d, ok := w.known[name]; ok {
			known[name] = events.Record{Seq: d.seq, Kind: events.KindTick, Fact: events.Fact{Schedule: name, At: d.at, Event: d.event}}
		} else {
			others = append(others, name)
		}
	}
	return known, others
}

// hold changes the number of a schedule's fires that this scheduler holds.
func (w *tickWatch) hold(name string, more int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held[name] += more; w.held[name] <= 0 {
		delete(w.held, name)
	}
}

// expect computes the next tick of each schedule with a new definition or decision.
func (w *tickWatch) expect(from *plans) {
	w.mu.Lock()
	changed := w.changed
	w.changed = map[string]bool{}
	w.mu.Unlock()
	fresh := from.fresh(changed)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range fresh {
		if lapsed := p.Lapsed(p.plan, w.known[p.Name].last()); len(lapsed) > 0 {
			tick := schedule.Tick{At: lapsed[len(lapsed)-1].Until}
			w.due.Push(&watchedTick{schedule: p.Name, tick: tick, lapsed: true, at: p.Changed.Add(tickPatience)})
		}
		if p.Paused != nil {
			continue
		}
		if next, ok := p.plan.Next(value.Later(p.Since, w.known[p.Name].last())); ok {
			w.due.Push(&watchedTick{schedule: p.Name, tick: next, at: next.Due.Add(tickPatience)})
		}
	}
}

// late removes and returns some of the ticks that are to be checked by now and are still undone.
func (w *tickWatch) late(now time.Time) (some []*watchedTick) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.due.Len() > 0 && !w.due.First().at.After(now) && len(some) < tickBatch {
		it := w.due.Pop()
		switch {
		case !w.undone(it):
		case !it.lapsed && now.Sub(it.tick.Due) > schedule.Grace/2:
			delete(w.unborn, it.born) // after a long absence, the fire and the sweep handle it
		case w.held[it.schedule] > 0: // this scheduler holds its fire
			it.at = now.Add(tickPatience)
			w.due.Push(it)
		default:
			if wait := w.turns.Wait(it.schedule); wait > 0 && !it.left {
				it.at, it.left = it.at.Add(wait), true
				w.due.Push(it)
				continue
			}
			some = append(some, it)
		}
	}
	return some
}

// undone tells whether the expected decision or task is not known to exist. The caller holds w.mu.
func (w *tickWatch) undone(it *watchedTick) bool {
	if it.born != "" {
		return w.unborn[it.born]
	}
	return w.known[it.schedule].last().Before(it.tick.At)
}

// again schedules another check of a tick.
func (w *tickWatch) again(it *watchedTick, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	it.at = at
	w.due.Push(it)
}

// watch handles ticks that others have left undone, until ctx ends.
func (f *firePipeline) watch(ctx context.Context) {
	ticker := time.NewTicker(tickLook)
	defer ticker.Stop()
	for seeded := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
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
		// Nobody has heard of these ticks: the log's clock may have been set back meanwhile.
		err, now := f.askTime(ctx), f.clock.At(time.Now())
		some = slices.DeleteFunc(some, func(it *watchedTick) bool {
			if err != nil || it.at.After(now) {
				w.again(it, it.at)
				return true
			}
			return false
		})
		var seeing errgroup.Group
		seeing.SetLimit(tickHands)
		for _, it := range some {
			seeing.Go(func() error {
				if err := f.s.see(ctx, it); err != nil && ctx.Err() == nil {
					f.s.log.Debug("a planned run that was left undone could not be dealt with", "error", err, "schedule", it.schedule)
				}
				w.again(it, f.clock.At(time.Now()).Add(tickAgain))
				return nil
			})
		}
		_ = seeing.Wait() // none fails
	}
}

// seed reads the state of the log at the start: its time, and the latest decisions.
func (f *firePipeline) seed(ctx context.Context) error {
	if err := f.askTime(ctx); err != nil {
		return err
	}
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

// see does the work of a tick's fire, if it is still undone.
func (s *Scheduler) see(ctx context.Context, it *watchedTick) error {
	s.ticks.mu.Lock()
	undone := s.ticks.undone(it)
	s.ticks.mu.Unlock()
	if !undone {
		return nil
	}
	d, err := s.decider(ctx, it.schedule, time.Now())
	if err != nil || d == nil {
		return err
	}
	d.again = true
	if it.born != "" {
		if err = d.complete(ctx, it.tick.At); err == nil {
			s.ticks.born(it.born) // or it cannot be
		}
		return err
	}
	s.ticks.decided(&d.last)
	if it.lapsed {
		return d.lapse(ctx)
	}
	if d.idle() {
		return nil
	}
	if next, ok := d.plan.Next(value.Later(d.stored.Since, d.ledger().Last)); !ok || !next.At.Equal(it.tick.At) {
		return nil // it was decided on, or the schedule has changed by now
	}
	s.log.Info("deciding on a planned run that another scheduler has left undone", "schedule", it.schedule, "tick", it.tick.At)
	fire, detail, _ := d.plan.Watched(it.tick.At)
	rest, err := d.handle(ctx, fire, detail, task.By{Rule: task.RuleWatch, At: it.tick.At})
	if err == nil && rest != nil {
		err = rest(ctx)
	}
	return err
}
