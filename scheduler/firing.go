package scheduler

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"millrace/events"
	"millrace/logclock"
	"millrace/task/definition"
	"millrace/task/schedule"
)

// firing is the way of fires through a scheduler. A timer fires [schedule.Ahead] of its tick, and
// what a decision needs is read then, for many fires at once. When the tick's time has come by the log's
// clock it is decided on and its task made, side by side with others. The next timer
// comes last, when nothing is there that is due.
type firing struct {
	s     *Scheduler
	fires events.Offers
	clock logclock.Floor
	room  chan struct{} // has a place for each fire that is held
	came  chan *fire    // to be prepared
	due   chan *fire    // to be decided on
	rest  chan *fire    // of which only the next timer is left to be set
	early chan struct{} // holds one: something has come that is to wait

	mu      sync.Mutex
	held    map[uint64]*fire // guarded by mu; what was not acknowledged yet, by sequence
	waiting byTime[*fire]    // guarded by mu
}

// fire is one on its way.
type fire struct {
	*events.Offer
	due    time.Time      // zero if it cannot be read or believed
	popped time.Time      // when its time had come; a reading of [time.Now]
	leased time.Time      // since when, guarded by firing.mu
	last   *events.Record // the latest decision as far as is known, nil if nothing is
	ticker *ticker
	rest   func(context.Context) error
}

// Of the way of fires.
const (
	// fireHands is how many fires a scheduler deals with at once. What takes its time is
	// the way to the server and back.
	fireHands = 256
	// firesHeld is how many it holds at most, those that wait for their tick included.
	firesHeld = 8192
	// fireTakers wait for fires, and fireReaders read what is needed of fireBatch of them at most.
	fireTakers, fireReaders, fireBatch = 64, 4, 256
	// fireBeat is how often it is looked for ticks that are due. All of one look share the question
	// whether their definitions are still what they were.
	fireBeat = 4 * time.Millisecond
	// fireLease is for how long a fire is held before its lease is prolonged. It lasts 5s.
	fireLease = 2 * time.Second
)

func (s *Scheduler) newFiring(fires events.Offers) *firing {
	return &firing{
		s: s, fires: fires, room: make(chan struct{}, firesHeld), early: make(chan struct{}, 1), held: map[uint64]*fire{},
		came: make(chan *fire, firesHeld), due: make(chan *fire, firesHeld), rest: make(chan *fire, firesHeld), // none of them ever blocks
	}
}

// fire deals with fires until ctx ends.
func (s *Scheduler) fire(ctx context.Context) error {
	if s.cfg.Schedules == nil {
		return nil
	}
	var fires events.Offers
	for pause := time.Second; ; {
		var err error
		if fires, err = s.cfg.Ticks.Fires(ctx); err == nil {
			break
		}
		s.log.Warn("fires of schedules cannot be had now; trying again", "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
	defer fires.Close()
	f := s.newFiring(fires)
	var g errgroup.Group
	for range fireTakers {
		g.Go(func() error { f.take(ctx); return nil })
	}
	for range fireReaders {
		g.Go(func() error { f.prepare(ctx); return nil })
	}
	for range fireHands {
		g.Go(func() error { f.work(ctx); return nil })
	}
	g.Go(func() error { f.wait(ctx); return nil })
	g.Go(func() error { f.keep(ctx); return nil })
	g.Go(func() error { f.watch(ctx); return nil })
	g.Go(func() error { s.every(ctx, LoopSchedules, s.cfg.Sweep, s.SweepSchedules); return nil })
	g.Go(func() error { s.every(ctx, LoopReleases, s.cfg.React, s.ReleaseTicks); return nil })
	err := g.Wait()
	f.giveBack()
	return err
}

// take brings fires, as long as there is room for them.
func (f *firing) take(ctx context.Context) {
	for {
		select {
		case f.room <- struct{}{}:
		case <-ctx.Done():
			return
		}
		offer, err := f.fires.Next(ctx)
		if err != nil {
			<-f.room
			return // ctx has ended, or the connection was closed for good
		}
		now := time.Now()
		f.clock.Hear(offer.Stored, now)
		it := &fire{Offer: offer, leased: now}
		if e, ok := offer.Fact.Event.(definition.ScheduleFired); ok && !(schedule.Fire{Due: e.Due, Stored: offer.Stored}).Strange() {
			it.due = e.Due
		}
		if !f.hold(it) {
			<-f.room
			continue
		}
		f.came <- it
	}
}

// hold keeps a fire. One that is held already has come again, because nobody heard in time that its
// lease was to be extended: it goes its way, under the new lease.
func (f *firing) hold(it *fire) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if was, again := f.held[it.Seq]; again {
		was.leased = it.leased
		return false
	}
	f.held[it.Seq] = it
	f.s.ticks.hold(it.Fact.Schedule, 1)
	return true
}

// done lets go of a fire; without an acknowledgement it comes again.
func (f *firing) done(it *fire) {
	f.mu.Lock()
	delete(f.held, it.Seq)
	f.mu.Unlock()
	f.s.ticks.hold(it.Fact.Schedule, -1)
	<-f.room
}

// giveBack returns what is held, for another scheduler.
func (f *firing) giveBack() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, it := range f.held {
		_ = it.Return() // else its lease runs out
	}
}

// prepare reads what decisions on fires will need.
func (f *firing) prepare(ctx context.Context) {
	for {
		var batch []*fire
		select {
		case it := <-f.came:
			batch = append(batch, it)
		case <-ctx.Done():
			return
		}
		for more := true; more && len(batch) < fireBatch; {
			select {
			case it := <-f.came:
				batch = append(batch, it)
			default:
				more = false
			}
		}
		f.readAhead(ctx, batch)
		f.mu.Lock()
		for _, it := range batch {
			heap.Push(&f.waiting, it)
		}
		f.mu.Unlock()
		select {
		case f.early <- struct{}{}:
		default:
		}
	}
}

// readAhead reads what it can; what is missing is read when it is needed.
func (f *firing) readAhead(ctx context.Context, batch []*fire) {
	s := f.s
	names := make([]string, len(batch))
	for i, it := range batch {
		names[i] = it.Fact.Schedule
	}
	asked := time.Now()
	last, err := s.cfg.Schedules.LastDecisions(ctx, names)
	if err == nil {
		for i, it := range batch {
			r := last[names[i]]
			it.last = &r
		}
	}
	late := false
	for _, it := range batch {
		late = late || it.due.Before(s.rec.Now())
		if it.last == nil {
			continue
		}
		p, err := s.plans.get(ctx, it.Fact.Schedule, asked.Add(-readAheadAge))
		if err != nil || p == nil {
			continue
		}
		if p.Make.Job != "" {
			_, _ = s.jobs.get(ctx, p.Make.Job, asked.Add(-readAheadAge)) // so that it is kept
		}
		it.ticker = &ticker{s: s, stored: p.Stored, plan: p.plan, last: *it.last}
		_, _, _ = it.ticker.observe(ctx, s.rec.Now()) // what has not ended yet is looked at again
	}
	if !late {
		return
	}
	// Their ticks may have been due long ago, of which fires do not tell.
	if now, err := s.cfg.Ticks.Time(ctx); err == nil {
		f.clock.Hear(now, time.Now())
	}
}

// wait lets fires go on whose tick's time has come.
func (f *firing) wait(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.early:
		case <-timer.C:
		}
		if next, some := f.release(time.Now()); some {
			timer.Reset(min(max(next, fireBeat), fireCheck))
		}
	}
}

// fireCheck is how often it is looked again how late it is by the log's clock: what comes
// from there tells that better and better.
const fireCheck = 20 * time.Millisecond

// release lets go on what is due, and tells how long the rest has to wait.
func (f *firing) release(now time.Time) (next time.Duration, some bool) {
	at := f.clock.At(now)
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.waiting) > 0 && !f.waiting[0].due.After(at) {
		it := heap.Pop(&f.waiting).(*fire)
		it.popped = now
		f.due <- it
	}
	if len(f.waiting) == 0 {
		return 0, false
	}
	return f.waiting[0].due.Sub(at), true
}

// work decides on what is due, and if there is nothing does what is left of others.
func (f *firing) work(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case it := <-f.due:
			f.decide(ctx, it)
			continue
		default:
		}
		select {
		case it := <-f.due:
			f.decide(ctx, it)
		case it := <-f.rest:
			f.end(ctx, it, it.rest(ctx))
		case <-ctx.Done():
		}
	}
}

func (f *firing) decide(ctx context.Context, it *fire) {
	rest, err := f.s.firedAhead(ctx, it)
	if err == nil && rest != nil {
		it.rest = rest
		f.rest <- it
		return
	}
	f.end(ctx, it, err)
}

// firedAhead is [Scheduler.Fired] with what was read ahead, as far as it still holds. A decision that is
// out of date is found out by the compare-and-set; a definition must be that of now.
func (s *Scheduler) firedAhead(ctx context.Context, it *fire) (rest func(context.Context) error, err error) {
	p, err := s.plans.get(ctx, it.Fact.Schedule, it.popped)
	if err != nil || p == nil {
		return nil, err
	}
	t := &ticker{s: s, stored: p.Stored, plan: p.plan, at: it.popped, again: it.Deliveries > 1}
	switch {
	case it.ticker != nil:
		t.last, t.ended = it.ticker.last, it.ticker.ended
	case it.last != nil:
		t.last = *it.last
	default:
		if t.last, err = s.cfg.Schedules.LastDecision(ctx, t.stored.Name); err != nil {
			return nil, err
		}
	}
	return t.fired(ctx, &it.Record)
}

// end lets go of a fire with which nothing is left to do, or that could not be dealt with.
func (f *firing) end(ctx context.Context, it *fire, err error) {
	defer f.done(it)
	if err == nil {
		_ = it.Ack() // if that is lost, it comes again and finds nothing to do
		return
	}
	if ctx.Err() != nil {
		_ = it.Return()
		return
	}
	f.s.log.Warn("a fire could not be dealt with; it comes again", "error", err, "schedule", it.Fact.Schedule)
}

// keep follows what becomes of definitions, and prolongs the leases of fires that are held for long: else they
// would be handed out again.
func (f *firing) keep(ctx context.Context) {
	tick := time.NewTicker(fireLease / 4)
	defer tick.Stop()
	for {
		_ = f.s.plans.follow(ctx, time.Now()) // who needs one tries again
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			f.prolong(now)
		}
	}
}

func (f *firing) prolong(now time.Time) {
	var old []*fire
	f.mu.Lock()
	for _, it := range f.held {
		if now.Sub(it.leased) > fireLease {
			it.leased = now
			old = append(old, it)
		}
	}
	f.mu.Unlock()
	for _, it := range old {
		_ = it.Prolong() // if that is lost it comes again, and is known
	}
}

// byTime is a heap that has what comes first on top.
type byTime[T interface{ when() time.Time }] []T

func (h byTime[T]) Len() int           { return len(h) }
func (h byTime[T]) Less(i, j int) bool { return h[i].when().Before(h[j].when()) }
func (h byTime[T]) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *byTime[T]) Push(it any)       { *h = append(*h, it.(T)) }
func (h *byTime[T]) Pop() any {
	old := *h
	n := len(old) - 1
	it := old[n]
	clear(old[n:]) // let go of it
	*h = old[:n]
	return it
}

func (f *fire) when() time.Time        { return f.due }
func (t *watchedTick) when() time.Time { return t.at }
