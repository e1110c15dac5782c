package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"millrace/events"
	"millrace/scheduler/admission"
	"millrace/scheduler/turns"
	"millrace/task"
	"millrace/task/limit"
	"millrace/task/queue"
	"millrace/task/quota"
)

// LimitModel is what a scheduler asks a read model for to admit tasks. It tells of every
// change through [Scheduler.Observe].
type LimitModel interface {
	// EachLimited calls each with every task under limits that has not ended, and the latest
	// admission of it if no offer has followed that is known, else nil. It returns what is used up of
	// rates and budgets, and the sequence that all of this reflects.
	EachLimited(ctx context.Context, each func(t *task.Task, admitted *task.Grant)) (used quota.Used, seq uint64, err error)
	// SaidOfQueues returns the queues about which operators have said something, and what.
	SaidOfQueues(ctx context.Context) ([]queue.Queue, error)
	// ByID returns those of some tasks that are known.
	ByID(ctx context.Context, ids []task.ID) ([]task.Task, error)
	// Wait returns when all that is told reflects the log up to a sequence.
	Wait(ctx context.Context, seq uint64) error
}

// Paces of admission.
const (
	// offerAgain is how long an admitted task may be without an offer before another
	// scheduler than the one that admitted it places that.
	offerAgain = 2 * time.Second
	// admitLook is how often that is looked at, if nothing else happens.
	admitLook = time.Second
	// outAtOnce is how many bundles of admissions are on their way before the next look has to wait.
	outAtOnce = 32
)

// admitter decides which tasks their limits admit. Any number of them may run: an admission
// is recorded by compare-and-set on the chains of its scopes, so each follows from all that were before it under the
// same counters, and who loses decides again. What shares no scope is recorded and offered side by side.
type admitter struct {
	view  LimitModel
	rec   *events.Recorder
	side  int // how many tasks are refused side by side
	turns *turns.Turns
	left  *turns.Left // scopes in which other schedulers admit first; they are closed to decisions here until then
	log   *slog.Logger
	wake  chan struct{} // holds one: something has changed
	busy  chan struct{} // holds one: tasks wait for a place, so news are urgent

	observed atomic.Uint64 // the latest that was told
	ruled    atomic.Bool   // a queue has a rate or had one, or that is not known yet
	touched  bool          // the batch that is told has something in it; of the goroutine that tells

	mu     sync.Mutex
	book   *admission.Book  // guarded by mu
	missed map[task.ID]miss // admitted and not offered: since when; the loop's own
	pruned time.Time        // the loop's own
}

func newAdmitter(rec *events.Recorder, cfg *Config, turns *turns.Turns) *admitter {
	a := &admitter{turns: turns, left: turns.Left(), view: cfg.Limits, rec: rec, side: cfg.Refusing, log: cfg.Log, wake: make(chan struct{}, 1), busy: make(chan struct{}, 1), book: admission.New(), missed: map[task.ID]miss{}}
	a.ruled.Store(true)
	return a
}

// observe implements [reactor].
func (a *admitter) observe(step *events.Step) {
	r := step.Record
	if r.Seq <= a.observed.Load() {
		a.begin() // the read model is made anew
	}
	defer a.observed.Store(r.Seq) // at the latest: tell does so with what it takes over
	switch r.Kind {
	case events.KindLimit:
		if e, ok := r.Fact.Event.(task.Granted); ok {
			a.touched = true
			of := limit.Scope(strings.Clone(string(r.Fact.Scope)))
			a.tell(r.Seq, false, func() { a.granted(of, r.Seq, e) })
		}
		return
	case events.KindQueue:
		if e, ok := r.Fact.Event.(queue.Event); ok {
			a.touched = true
			a.said(strings.Clone(r.Fact.Queue), r.Seq, r.Fact.At, e)
		}
		return
	}
	if step.Task == nil {
		return
	}
	var until time.Time
	if e, ok := r.Fact.Event.(task.AttemptFailed); ok {
		until = admission.Asked(e, r.Fact.At)
	}
	if until.IsZero() && !step.Task.Limited() && !a.mayHaveBeenRated(step) {
		return
	}
	a.touched = true
	took := admission.ShiftOf(step)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.book.Loaded() {
		a.observed.Store(r.Seq)
		a.book.Put(step.Task, until, took)
		return
	}
	t := *step.Task
	if until.IsZero() && !t.Limited() { // of which no more counts than that
		t = task.Task{ID: t.ID, State: t.State, Seq: t.Seq}
	}
	a.book.Defer(r.Seq, false, func() { a.book.Put(&t, until, took) })
}

// said takes over what was said of a queue.
func (a *admitter) said(name string, seq uint64, at time.Time, e queue.Event) {
	a.tell(seq, true, func() {
		a.book.Known().Said(name, seq, at, e)
		a.ruled.Store(true)
	})
}

// mayHaveBeenRated tells whether the limiter may know of a task that is under no limit any more: it was
// held or offered under the rate of its queue.
func (a *admitter) mayHaveBeenRated(step *events.Step) bool {
	return a.ruled.Load() && (step.Was.State == task.Held || step.Was.State == task.Pending)
}

// tell applies what was told, now or when the rest is loaded. What is known and up to where are one: a decision names that.
func (a *admitter) tell(seq uint64, ofQueue bool, apply func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.book.Loaded() {
		a.observed.Store(seq)
		apply()
		return
	}
	a.book.Defer(seq, ofQueue, apply)
}

// told implements [batched].
func (a *admitter) told() {
	if !a.touched {
		return
	}
	a.touched = false
	signal(a.wake)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// granted takes over an admission, with mu held.
func (a *admitter) granted(of limit.Scope, seq uint64, e task.Granted) {
	if a.left.Drop(string(of)) {
		a.book.Reopen(of)
	}
	a.book.Granted(of, seq, e)
}

// begin forgets everything.
func (a *admitter) begin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.book = admission.New()
	a.left.Clear()
	a.ruled.Store(true)
}

// load begins with what the read model holds.
func (a *admitter) load(ctx context.Context) error {
	a.mu.Lock()
	a.book.Await()
	a.mu.Unlock()
	queues, err := a.view.SaidOfQueues(ctx) // before the tasks, so that no later rate is known than they are
	if err != nil {
		return err
	}
	known, seq, err := quota.LoadLimiter(queues, func(each func(*task.Task, *task.Grant)) (quota.Used, uint64, error) {
		return a.view.EachLimited(ctx, each)
	})
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.left.Clear()
	a.book.Load(known, seq)
	a.ruled.Store(known.Ruled())
	for _, g := range known.Unoffered() { // whoever admitted them may be gone
		a.missed[g.Task] = miss{turn: g.Turn}
	}
	return nil
}

// run admits until ctx ends.
func (a *admitter) run(ctx context.Context, looked func(began, ended time.Time, err error)) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	done := make(chan error) // what became of bundles
	out, failing := 0, false
	defer func() {
		for ; out > 0; out-- {
			if err := <-done; err != nil { // whoever admits next does what is left
				a.log.Debug("the end of the scheduler has cut an admission off", "error", err)
			}
		}
	}()
	for {
		var failed error
		select {
		case <-ctx.Done():
			return
		case failed = <-done:
			out--
		case <-a.wake:
		case <-timer.C:
		}
		if out >= outAtOnce || failed == nil && out > 0 && a.shut() {
			continue // whatever is done next is followed by another look
		}
		began := a.rec.Now()
		var next time.Time
		if failed == nil {
			var parts []*admission.Sent
			parts, next, failed = a.decide(ctx)
			for _, b := range admission.Bundled(parts) {
				out++
				go func() { done <- a.carryOut(ctx, b) }()
			}
		}
		looked(began, a.rec.Now(), failed)
		wait := admitLook
		if failed != nil {
			if ctx.Err() == nil && !failing {
				a.log.Warn("tasks under limits cannot be admitted; trying again", "error", failed)
			}
			wait = admitLook / 4
		} else if !next.IsZero() {
			wait = min(wait, max(next.Sub(a.rec.Now()), 0))
		}
		failing = failed != nil
		timer.Reset(wait)
	}
}

// shut tells whether nothing can be admitted before something that is on its way has been recorded or not.
func (a *admitter) shut() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.book.Known().Shut()
}

// hurry hurries the read model while tasks wait for a place: it tells when one is free.
func (a *admitter) hurry(ctx context.Context) {
	hurry(ctx, a.view, a.busy, a.observed.Load, a.crowded)
}

func (a *admitter) crowded() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.book.Known().Waiting() > 0
}

// Admit admits once what may go, and returns when to look again at the latest; zero for
// when something happens.
func (a *admitter) Admit(ctx context.Context) (time.Time, error) {
	parts, next, err := a.decide(ctx)
	for _, b := range admission.Bundled(parts) {
		err = errors.Join(err, a.carryOut(ctx, b))
	}
	return next, err
}

// decide decides what may go now, in parts that share no scope; carryOut must follow for each. It
// returns when to look again at the latest.
func (a *admitter) decide(ctx context.Context) ([]*admission.Sent, time.Time, error) {
	a.mu.Lock()
	loaded := a.book.Loaded()
	a.mu.Unlock()
	if !loaded {
		if err := a.load(ctx); err != nil {
			return nil, time.Time{}, err
		}
	}
	now := a.rec.Now()
	if now.Sub(a.pruned) > time.Minute {
		a.pruned = now
		a.mu.Lock()
		a.book.Known().Prune(now)
		a.mu.Unlock()
	}
	if err := a.offerMissed(ctx, now); err != nil {
		return nil, time.Time{}, err
	}
	now = a.rec.Moment()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, key := range a.left.Late() {
		a.left.Drop(key)
		a.book.Overdue(limit.Scope(key))
	}
	all, left, next := a.book.Decide(now, a.observed.Load(), func(of limit.Scope) bool { return a.turns.First(string(of)) })
	for _, scopes := range left {
		for _, of := range scopes {
			a.left.Leave(string(of), string(scopes[0]))
		}
	}
	if a.book.Known().Waiting() > 0 {
		signal(a.busy)
	}
	if a.left.Any() {
		if again := now.Add(turns.Patience / 10); next.IsZero() || again.Before(next) {
			next = again
		}
	}
	return all, next, nil
}

// carryOut records parts, the ends of those that they refuse included, and places the offers of those that they admit. What a
// part takes from is closed to other decisions until then: so these become larger where much happens. What is lost to
// another scheduler stays closed until it is known what that one has admitted.
func (a *admitter) carryOut(ctx context.Context, parts []*admission.Sent) error {
	ok := make([]bool, len(parts))
	failed := a.sideBySide(len(parts), func(i int) (err error) {
		ok[i], err = a.record(ctx, parts[i])
		return err
	})
	var grants []task.Grant
	for i, p := range parts {
		if ok[i] {
			grants = append(grants, p.Grants...)
		}
	}
	err := a.offer(ctx, grants)
	for i, p := range parts {
		if ok[i] {
			a.settle(p)
		}
	}
	failed = append(failed, err)
	for i, p := range parts {
		if ok[i] {
			continue
		}
		if failed[i] == nil {
			failed[i] = a.catchUp(ctx, p)
		}
		a.settle(p)
	}
	return errors.Join(failed...)
}

// sideBySide calls do for some numbers, several at once, and returns its errors.
func (a *admitter) sideBySide(n int, do func(int) error) []error {
	errs := make([]error, n)
	if n == 1 || a.side == 1 {
		for i := range n {
			errs[i] = do(i)
		}
		return errs
	}
	var g errgroup.Group
	g.SetLimit(a.side)
	for i := range n {
		g.Go(func() error { errs[i] = do(i); return nil })
	}
	_ = g.Wait()
	return errs
}

// settle opens what a part takes from to the next decision.
func (a *admitter) settle(p *admission.Sent) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.book.Settle(p)
}

// record records a part, and takes it back if it is not recorded or nobody knows. It is false, too, if
// somebody else's came first or the answer was lost: catchUp must follow.
func (a *admitter) record(ctx context.Context, p *admission.Sent) (bool, error) {
	stops, err := a.stops(ctx, p)
	first, done := uint64(0), err == nil
	if idle := len(p.Grants)+len(p.Rates)+len(stops) == 0; err == nil && !idle {
		first, done, err = a.rec.Admit(ctx, p.At, p.Scopes, p.Records, p.Heads, p.Known, stops)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if done {
		a.book.Recorded(p, first)
	} else {
		a.book.Undo(p)
	}
	return done, err
}

// stops are the ends of those for which there is no place and that do not wait, and the requests to stop of those that
// have to make place. They are recorded with the part: on the chains of its scopes somebody else may have admitted since
// who is refused here, and no message on a task's own chain says so.
func (a *admitter) stops(ctx context.Context, p *admission.Sent) ([]*events.Stop, error) {
	all := slices.Concat(p.Refused, p.Replaced)
	stops := make([]*events.Stop, len(all))
	err := errors.Join(a.sideBySide(len(all), func(i int) (err error) {
		r := all[i]
		var c task.Command = task.Refuse{Limit: r.Counter, Detail: "no place under " + r.Counter}
		if i >= len(p.Refused) {
			c = r.Replace()
		}
		stops[i], err = a.rec.Stop(ctx, r.Task, task.Judged{Command: c, By: task.By{Rule: task.RuleLimit, Limit: r.Counter, Seen: p.Known.Seen}})
		return err
	})...)
	if err != nil {
		return nil, err
	}
	p.Refused, p.Replaced = p.Refused[:0:0], p.Replaced[:0:0]
	for i, r := range all {
		switch {
		case stops[i] == nil:
			continue // it has gone on by itself
		case r.By == "":
			p.Refused = append(p.Refused, r)
		default:
			p.Replaced = append(p.Replaced, r)
		}
		p.Refuse(r)
	}
	return slices.DeleteFunc(stops, func(s *events.Stop) bool { return s == nil }), err
}

// catchUp waits until what others have put on the chains of a part's scopes is known, whether it can be read or not. So
// it is learned, too, where a chain ends of which nothing was known.
func (a *admitter) catchUp(ctx context.Context, p *admission.Sent) error {
	ends := make([]uint64, len(p.Scopes))
	for i, of := range p.Scopes {
		last, _, err := a.rec.Log.Latest(ctx, events.Fact{Scope: of})
		if err != nil {
			return err
		}
		ends[i] = last.Seq
	}
	if slices.Equal(ends, p.Heads) {
		return nil
	}
	last := slices.Max(ends)
	if err := a.view.Wait(ctx, last); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.book.Holds(p) && a.book.Loaded() && max(a.book.Reflects(), a.observed.Load()) >= last {
		a.book.Learn(p, ends) // else the next conflict learns it
	}
	return nil
}

// Admit admits once what limits hold and may go, and returns when to look again at the
// latest; zero for when something happens. [Scheduler.Run] does so by itself.
func (s *Scheduler) Admit(ctx context.Context) (time.Time, error) {
	if s.admitter == nil {
		return time.Time{}, nil
	}
	return s.admitter.Admit(ctx)
}

// offer places the offers of tasks that are admitted. One that has gone on since needs none.
func (a *admitter) offer(ctx context.Context, grants []task.Grant) error {
	if len(grants) == 0 {
		return nil
	}
	ids := make([]task.ID, len(grants))
	place := make(map[task.ID]int, len(grants))
	for i, g := range grants {
		ids[i], place[g.Task] = g.Task, i
	}
	tasks, err := a.view.ByID(ctx, ids)
	if err != nil {
		return err
	}
	slices.SortFunc(tasks, func(x, y task.Task) int { return place[x.ID] - place[y.ID] })
	facts := make([]*events.Fact, 0, len(tasks))
	for i := range tasks {
		if t, g := tasks[i], grants[place[tasks[i].ID]]; t.Admissible() && t.Turn == g.Turn {
			facts = append(facts, a.rec.Fact(t.ID, task.AdmittedOffer(t, g.Rated)))
		}
	}
	return a.rec.PlaceAdmitted(ctx, facts)
}

// offerMissed places the offers of those that were admitted and not offered, by whomever.
func (a *admitter) offerMissed(ctx context.Context, now time.Time) error {
	a.mu.Lock()
	open := a.book.Known().Unoffered()
	a.mu.Unlock()
	missed := make(map[task.ID]miss, len(open))
	var again []task.Grant
	for _, g := range open {
		m, ok := a.missed[g.Task]
		if !ok || m.turn != g.Turn {
			m = miss{g.Turn, now}
		}
		if now.Sub(m.since) >= offerAgain+a.turns.Wait(string(g.Task)) {
			again = append(again, g)
			m.since = now
		}
		missed[g.Task] = m
	}
	a.missed = missed
	for part := range slices.Chunk(again, quota.GrantsAtOnce) {
		if err := a.offer(ctx, part); err != nil {
			return err
		}
	}
	return nil
}
