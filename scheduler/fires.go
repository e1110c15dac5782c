package scheduler

import (
	"context"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"millrace/events"
	"millrace/task"
	"millrace/task/schedule"
	"millrace/task/value"
)

// firePipeline takes fires through a scheduler. A timer fires [schedule.Ahead] before its tick,
// and the inputs of the decision are read then, for many fires at once. When the tick's time has
// come by the log's clock, the scheduler decides and makes the task, concurrently with others. It
// sets the next timer last, when no tick is due.
type firePipeline struct {
	s     *Scheduler
	fires events.Offers
	clock floor
	room  chan struct{}  // has a place for each held fire
	came  chan *heldFire // to be prepared
	due   chan *heldFire // to be decided
	rest  chan *heldFire // only the next timer is left to set
	early chan struct{}  // holds one: the first tick to wait for is another one

	mu      sync.Mutex
	held    map[uint64]*heldFire  // guarded by mu; unacknowledged fires, by sequence
	waiting value.Heap[*heldFire] // guarded by mu
}

// heldFire is a fire that this scheduler holds.
type heldFire struct {
	*events.Offer
	due    time.Time // zero if it is unreadable or implausible
	popped time.Time // when its time had come; a reading of [time.Now]
	leased time.Time // when its lease began; guarded by firePipeline.mu
	ahead  *decider  // what was read ahead, the latest decision at least; nil if nothing could be
	rest   func(context.Context) error
}

// Settings for the pipeline of fires.
const (
	// fireHands is how many fires a scheduler handles concurrently. The round trip to the server
	// takes most of the time.
	fireHands = 256
	// firesHeld is how many it holds at most, including those that wait for their tick.
	firesHeld = 8192
	// fireTakers goroutines wait for fires. fireReaders goroutines read the inputs for up to
	// fireBatch of them at once.
	fireTakers, fireReaders, fireBatch = 64, 4, 256
	// fireBeat is the interval of checks for due ticks. All ticks of one check share the request
	// whether their definitions are current.
	fireBeat = 4 * time.Millisecond
	// fireLease is how long a fire is held before its lease is renewed. The lease lasts 5 s.
	fireLease = 2 * time.Second
)

func (s *Scheduler) newFirePipeline(fires events.Offers) *firePipeline {
	return &firePipeline{
		waiting: value.Heap[*heldFire]{Before: func(a, b *heldFire) bool { return a.due.Before(b.due) }},
		s:       s, fires: fires, room: make(chan struct{}, firesHeld), early: make(chan struct{}, 1), held: map[uint64]*heldFire{},
		came: make(chan *heldFire, firesHeld), due: make(chan *heldFire, firesHeld), rest: make(chan *heldFire, firesHeld), // none of them ever blocks
	}
}

// handleFires handles fires until ctx ends.
func (s *Scheduler) handleFires(ctx context.Context) error {
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
	f := s.newFirePipeline(fires)
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
	g.Go(func() error { s.every(ctx, LoopSchedules, s.cfg.Sweep, s.sweepSchedules); return nil })
	g.Go(func() error { s.every(ctx, LoopReleases, s.cfg.React, s.ReleaseTicks); return nil })
	err := g.Wait()
	f.giveBack()
	return err
}

// take fetches fires while there is room for them.
func (f *firePipeline) take(ctx context.Context) {
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
		f.s.hear(offer.Seq)
		it := &heldFire{Offer: offer, leased: now}
		if e, ok := offer.Fact.Event.(task.ScheduleFired); ok && !(schedule.Fire{Due: e.Due, Stored: offer.Stored}).Strange() {
			it.due = e.Due
		}
		if !f.hold(it) {
			<-f.room
			continue
		}
		f.came <- it
	}
}

// hold keeps a fire. If the fire is held already, it was redelivered because the server missed the
// renewal of its lease. It continues under the new lease.
func (f *firePipeline) hold(it *heldFire) bool {
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

// done releases a fire. Without an acknowledgement it comes again.
func (f *firePipeline) done(it *heldFire) {
	f.mu.Lock()
	delete(f.held, it.Seq)
	f.mu.Unlock()
	f.s.ticks.hold(it.Fact.Schedule, -1)
	<-f.room
}

// giveBack returns the held fires for another scheduler.
func (f *firePipeline) giveBack() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, it := range f.held {
		_ = it.Return() // otherwise its lease would have to expire
	}
}

// prepare reads the inputs of decisions on fires.
func (f *firePipeline) prepare(ctx context.Context) {
	for {
		var batch []*heldFire
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
		if f.await(batch) {
			Poke(f.early)
		}
	}
}

// await has fires wait for their ticks. It tells whether the first tick to wait for is another one.
func (f *firePipeline) await(batch []*heldFire) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	var was *heldFire
	if f.waiting.Len() > 0 {
		was = f.waiting.First()
	}
	for _, it := range batch {
		f.waiting.Push(it)
	}
	return f.waiting.First() != was
}

// readAhead collects the inputs that are known or can be read. Missing parts are read when they are
// needed.
func (f *firePipeline) readAhead(ctx context.Context, batch []*heldFire) {
	s := f.s
	names := make([]string, len(batch))
	for i, it := range batch {
		names[i] = it.Fact.Schedule
	}
	asked := time.Now()
	last, others := s.ticks.latest(names)
	read := true
	if len(others) > 0 {
		more, err := s.cfg.Schedules.LastDecisions(ctx, others)
		maps.Copy(last, more)
		read = err == nil
	}
	late := false
	for i, it := range batch {
		if d, known := last[names[i]]; known || read {
			it.ahead = &decider{s: s, last: d}
		}
		late = late || it.due.Before(s.rec.Now())
		if it.ahead == nil {
			continue
		}
		p, err := s.plans.get(ctx, it.Fact.Schedule, asked.Add(-readAheadAge))
		if err != nil || p == nil {
			continue
		}
		if p.Make.Job != "" {
			_, _ = s.jobs.get(ctx, p.Make.Job, asked.Add(-readAheadAge)) // to cache it
		}
		it.ahead.stored, it.ahead.plan = &p.Stored, p.plan
		_, _, _ = it.ahead.observe(ctx, s.rec.Now()) // tasks that have not ended yet are checked again later
	}
	if !late {
		return
	}
	// Their ticks may have been due long ago, and fires do not tell the present time.
	_ = f.askTime(ctx) // it is asked again with the next ones
}

// askTime asks for the present time of the log.
func (f *firePipeline) askTime(ctx context.Context) error {
	asked := time.Now()
	now, err := f.s.cfg.Ticks.Time(ctx)
	if err == nil {
		f.clock.Answer(now, asked, time.Now())
	}
	return err
}

// wait passes on fires whose tick's time has come.
func (f *firePipeline) wait(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.early:
		case <-timer.C:
		}
		if next, some := f.passDue(time.Now()); some {
			timer.Reset(min(max(next, fireBeat), fireCheck))
		}
	}
}

// fireCheck is how often the time by the log's clock is estimated again: it becomes more precise
// with each message.
const fireCheck = 20 * time.Millisecond

// passDue passes on due fires, and returns how long the rest must wait.
func (f *firePipeline) passDue(now time.Time) (next time.Duration, some bool) {
	at := f.clock.At(now)
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.waiting.Len() > 0 && !f.waiting.First().due.After(at) {
		it := f.waiting.Pop()
		it.popped = now
		f.due <- it
	}
	if f.waiting.Len() == 0 {
		return 0, false
	}
	return f.waiting.First().due.Sub(at), true
}

// work decides on due fires. When there are none, it finishes the rest of others.
func (f *firePipeline) work(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case it := <-f.due:
			f.handle(ctx, it)
			continue
		default:
		}
		select {
		case it := <-f.due:
			f.handle(ctx, it)
		case it := <-f.rest:
			f.end(ctx, it, it.rest(ctx))
		case <-ctx.Done():
		}
	}
}

// handle handles a due fire, and leaves what may wait to when no fire is due.
func (f *firePipeline) handle(ctx context.Context, it *heldFire) {
	rest, err := f.s.handleFire(ctx, it)
	if err == nil && rest != nil {
		it.rest = rest
		f.rest <- it
		return
	}
	f.end(ctx, it, err)
}

// handleFire is [decider.handle] with the inputs read ahead, as far as they are current. The
// compare-and-set detects an outdated decision. The definition must be the present one.
func (s *Scheduler) handleFire(ctx context.Context, it *heldFire) (rest func(context.Context) error, err error) {
	e, ok := it.Fact.Event.(task.ScheduleFired)
	fire := schedule.Fire{Tick: e.Tick, Due: e.Due, Stored: it.Stored}
	if !ok || fire.Strange() {
		return nil, nil // the read model lists unreadable messages
	}
	p, err := s.plans.get(ctx, it.Fact.Schedule, it.popped)
	if err != nil {
		return nil, err
	}
	d := it.ahead
	if d == nil || p == nil {
		if d, err = s.decider(ctx, it.Fact.Schedule, it.popped); d == nil || err != nil {
			return nil, err
		}
	} else {
		d.stored, d.plan, d.at = &p.Stored, p.plan, it.popped
	}
	if d.again = it.Deliveries > 1 || !e.Tick.After(d.ledger().Last); d.again {
		if err := d.repeat(ctx, e.Tick); err != nil {
			return nil, err
		}
	}
	if d.idle() {
		return nil, d.lapse(ctx)
	}
	if _, is := d.plan.Is(e.Tick); !is && e.Revision != d.stored.Revision { // of an earlier definition
		return nil, d.arm(ctx, value.Later(d.stored.Since, d.ledger().Last), false)
	}
	return d.handle(ctx, fire, e.Detail, task.By{Offer: it.Seq})
}

// Fire handles one fire whose tick is due, to its end, for a caller that sets the pace itself.
func (s *Scheduler) Fire(ctx context.Context, r *events.Record) error {
	rest, err := s.handleFire(ctx, &heldFire{Offer: &events.Offer{Record: *r, Deliveries: 1}, popped: time.Now()})
	if err != nil || rest == nil {
		return err
	}
	return rest(ctx)
}

// end finishes a fire that is done, or that could not be handled.
func (f *firePipeline) end(ctx context.Context, it *heldFire, err error) {
	defer f.done(it)
	if err == nil {
		_ = it.Ack() // if the ack is lost, the fire comes again and has no effect
		return
	}
	if ctx.Err() != nil {
		_ = it.Return()
		return
	}
	f.s.log.Warn("a fire could not be dealt with; it comes again", "error", err, "schedule", it.Fact.Schedule)
}

// keep follows the changes of definitions, and renews the leases of fires that are held long, which
// would otherwise be redelivered.
func (f *firePipeline) keep(ctx context.Context) {
	repeat(ctx, func() time.Duration {
		f.prolong(time.Now())
		_ = f.s.plans.follow(ctx, time.Now()) // a caller that needs one tries again
		return fireLease / 4
	})
}

func (f *firePipeline) prolong(now time.Time) {
	var old []*heldFire
	f.mu.Lock()
	for _, it := range f.held {
		if now.Sub(it.leased) > fireLease {
			it.leased = now
			old = append(old, it)
		}
	}
	f.mu.Unlock()
	for _, it := range old {
		_ = it.Prolong() // if that is lost the fire comes again, and is recognized
	}
}

// floorWindow is how long a message is used: two clocks drift apart by less than a millisecond
// within two windows.
const floorWindow = 5 * time.Second

// floor gives a lower bound of the log's present time, for actions that must not happen early.
// request.Clock is not enough for that: it accepts a machine that is up to request.Tolerance ahead.
//
// When a message is read, the log's clock shows at least the time at which the message was stored.
// The fastest of the recent messages gives the best bound: the floor is below the log's time by the
// time that this message took. Safe for concurrent use.
type floor struct {
	mu    sync.Mutex
	start time.Time // guarded by mu, like all below; a reading of the monotonic clock
	// best is the least that the log's clock showed at start, by the messages of this window;
	// before is the same by those of the window before. Zero if there were none.
	best, before time.Time
	since        time.Time // when this window began
}

// Hear reports a message that the log stored at one time and that was read at another, a reading of
// [time.Now].
func (f *floor) Hear(stored, read time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.start.IsZero() {
		f.start, f.since = read, read
	}
	if age := read.Sub(f.since); age >= floorWindow {
		if f.before = f.best; age >= 2*floorWindow {
			f.before = time.Time{}
		}
		f.best, f.since = time.Time{}, read
	}
	if at := stored.Add(f.start.Sub(read)); at.After(f.best) {
		f.best = at
	}
}

// Answer reports the log's time at some moment between asked and answered, readings of [time.Now]. Only
// an answer can tell that the log's clock was set back: a message may have been stored long ago.
func (f *floor) Answer(log, asked, answered time.Time) {
	if log.Before(f.At(asked)) {
		f.mu.Lock()
		f.best, f.before = time.Time{}, time.Time{}
		f.mu.Unlock()
	}
	f.Hear(log, answered)
}

// At is the least that the log's clock showed at now, a reading of [time.Now]; the zero time if no
// message was heard.
func (f *floor) At(now time.Time) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	best := f.best
	if f.before.After(best) {
		best = f.before
	}
	if best.IsZero() {
		return best
	}
	return best.Add(now.Sub(f.start))
}
