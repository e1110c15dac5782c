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

	"millrace/events"
	"millrace/task"
	"millrace/task/limit"
	"millrace/task/queue"
	"millrace/task/quota"
)

// LimitModel is the part of a read model that a scheduler needs to admit tasks. The read model
// reports every change through [Scheduler.Observe].
type LimitModel interface {
	// EachLimited calls each for every task under limits that has not ended, with its latest
	// admission if no offer is known to have followed, else nil. It returns the usage of rates and
	// budgets, and the sequence that all of this reflects.
	EachLimited(ctx context.Context, each quota.Each) (used quota.Used, seq uint64, err error)
	// SaidOfQueues returns the queues that have facts.
	SaidOfQueues(ctx context.Context) ([]queue.Queue, error)
	// Known returns the known tasks among the given ones.
	Known(ctx context.Context, ids []task.ID) ([]task.Task, error)
	// Wait returns once the reported changes reflect the log up to a sequence.
	Wait(ctx context.Context, seq uint64) error
}

// Paces of admission.
const (
	// offerAgain is how long an admitted task may lack its offer before a scheduler other than the
	// admitting one places it.
	offerAgain = 2 * time.Second
	// admitLook is the interval of that check, if nothing else triggers it.
	admitLook = time.Second
	// outAtOnce is how many bundles of admissions may be on their way before the next decision must
	// wait.
	outAtOnce = 32
)

// admitter decides which tasks their limits admit. Any number of admitters may run: an admission is
// recorded by compare-and-set on the chains of its scopes, so each follows from all earlier ones
// under the same counters, and the loser decides again. Parts that share no scope are recorded and
// offered concurrently.
type admitter struct {
	view  LimitModel
	end   func(context.Context) (uint64, error) // see [Config.Last]
	rec   *events.Recorder
	side  int // how many tasks are refused concurrently
	turns *Precedence
	left  *Deferred // scopes in which other schedulers admit first; closed to decisions here until then
	log   *slog.Logger
	wake  chan struct{} // holds one: there was a change
	busy  chan struct{} // holds one: tasks wait for a place, so changes are urgent

	observed atomic.Uint64 // the end of the latest batch told
	ruled    atomic.Bool   // a queue has or had a rate, or that is not known yet

	// Owned by the observing goroutine: the changes of the present batch, and its latest record.
	batch []change
	last  uint64

	mu      sync.Mutex
	book    *quota.Book           // guarded by mu
	placing map[task.ID]bool      // guarded by mu; tasks whose offers are on their way from here
	lacking map[task.ID]unoffered // owned by the loop
	pruned  time.Time             // owned by the loop
	next    time.Time             // owned by the caller of look: when the next round is due
}

// unoffered is an admitted task without a known offer.
type unoffered struct {
	turn  uint64
	since time.Time
	// until is what the read model must reflect before the offer counts as missing: the end of the
	// log when the task had lacked it for too long. 0 before that.
	until uint64
}

func newAdmitter(rec *events.Recorder, cfg *Config, turns *Precedence) *admitter {
	a := &admitter{
		turns:   turns,
		left:    turns.Left(),
		view:    cfg.Limits,
		rec:     rec,
		side:    cfg.Refusing,
		log:     cfg.Log,
		wake:    make(chan struct{}, 1),
		busy:    make(chan struct{}, 1),
		book:    quota.NewBook(),
		end:     cfg.Last,
		placing: map[task.ID]bool{},
		lacking: map[task.ID]unoffered{},
	}
	a.ruled.Store(true)
	return a
}

// change is a change that the book is told at the end of its batch: the state of a task is that after
// the whole batch, so a decision within a batch would know more of some tasks than it says.
type change struct {
	seq     uint64
	ofQueue bool
	apply   func() // nil for a task

	task  *task.Task // valid as long as the batch
	until time.Time
	took  quota.Shift
}

// observe implements [reactor].
func (a *admitter) observe(step *events.Step) {
	r := step.Record
	if r.Seq <= a.last {
		a.begin() // the read model is rebuilt
	}
	a.last = r.Seq
	switch r.Kind {
	case events.KindLimit:
		if e, ok := r.Fact.Event.(task.Granted); ok {
			of := limit.Scope(strings.Clone(string(r.Fact.Scope)))
			a.batch = append(a.batch, change{seq: r.Seq, apply: func() { a.granted(of, r.Seq, e) }})
		}
		return
	case events.KindQueue:
		if e, ok := r.Fact.Event.(queue.Event); ok {
			name, seq, at := strings.Clone(r.Fact.Queue), r.Seq, r.Fact.At
			a.ruled.Store(true)
			a.batch = append(a.batch, change{seq: seq, ofQueue: true, apply: func() { a.book.Known().Said(name, seq, at, e) }})
		}
		return
	}
	if step.Task == nil {
		return
	}
	var until time.Time
	if e, ok := r.Fact.Event.(task.AttemptFailed); ok {
		until = quota.Asked(e, r.Fact.At)
	}
	if until.IsZero() && !step.Task.Limited() && !a.mayHaveBeenRated(step) {
		return
	}
	took := quota.ShiftOf(step.Task, step.Was.Course, step.Is.Course, step.Record.Task())
	a.batch = append(a.batch, change{seq: r.Seq, task: step.Task, until: until, took: took})
}

// mayHaveBeenRated tells whether the limiter may know a task without limits: it was held or offered
// under the rate of its queue.
func (a *admitter) mayHaveBeenRated(step *events.Step) bool {
	return a.ruled.Load() && (step.Was.State == task.Held || step.Was.State == task.Pending)
}

// endBatch implements [batched]. It tells the changes of the batch, now or after the load, and their
// sequence with them, because a decision names what it knew.
func (a *admitter) endBatch() {
	if len(a.batch) == 0 {
		a.observed.Store(a.last)
		return
	}
	a.mu.Lock()
	for i := range a.batch {
		a.tell(&a.batch[i])
	}
	a.observed.Store(a.last)
	a.mu.Unlock()
	clear(a.batch)
	a.batch = a.batch[:0]
	Poke(a.wake)
}

// tell tells the book a change, with mu held.
func (a *admitter) tell(c *change) {
	switch {
	case c.task == nil && a.book.Loaded():
		c.apply()
	case c.task == nil:
		a.book.Defer(c.seq, c.ofQueue, c.apply)
	case a.book.Loaded():
		a.book.Put(c.task, c.until, c.took)
	default:
		t, until, took := *c.task, c.until, c.took
		if until.IsZero() && !t.Limited() { // further ones do not count
			t = task.Task{ID: t.ID, State: t.State, Seq: t.Seq}
		}
		a.book.Defer(c.seq, false, func() { a.book.Put(&t, until, took) })
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
	a.book = quota.NewBook()
	a.observed.Store(0)
	a.left.Clear()
	a.ruled.Store(true)
}

// load starts with the state of the read model.
func (a *admitter) load(ctx context.Context) error {
	a.mu.Lock()
	a.book.Await()
	a.mu.Unlock()
	queues, err := a.view.SaidOfQueues(ctx) // before the tasks, so that no known rate is later than theirs
	if err != nil {
		return err
	}
	known, seq, err := quota.LoadLimiter(queues, func(each quota.Each) (quota.Used, uint64, error) {
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
	for _, g := range known.Unoffered() { // the scheduler that admitted them may be gone
		a.lacking[g.Task] = unoffered{turn: g.Turn}
	}
	return nil
}

// run admits until ctx ends.
func (a *admitter) run(ctx context.Context, looked func(began, ended time.Time, err error)) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	done := make(chan error) // the results of bundles
	out, failing := 0, false
	defer func() {
		for ; out > 0; out-- {
			if err := <-done; err != nil { // the next scheduler to admit finishes the work
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
			continue // every result is followed by another round
		}
		began := a.rec.Now()
		var next time.Time
		if failed == nil {
			var parts []*quota.Sent
			parts, next, failed = a.decide(ctx)
			for _, b := range quota.Bundled(parts) {
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

// shut tells whether no task can be admitted before the outcome of a part on its way is known.
func (a *admitter) shut() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.book.Known().Shut()
}

// crowded tells whether tasks wait for a place: the read model reports when one is free.
func (a *admitter) crowded() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.book.Known().Waiting() > 0
}

// Admit makes one round of admissions, and returns when to make the next at the latest; zero if
// only a change requires it.
func (a *admitter) Admit(ctx context.Context) (time.Time, error) {
	parts, next, err := a.decide(ctx)
	for _, b := range quota.Bundled(parts) {
		err = errors.Join(err, a.carryOut(ctx, b))
	}
	return next, err
}

// decide returns the present decision in parts that share no scope; carryOut must follow for each.
// It also returns when to decide again at the latest.
func (a *admitter) decide(ctx context.Context) ([]*quota.Sent, time.Time, error) {
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
		Poke(a.busy)
	}
	if a.left.some.Load() || a.behind() {
		if again := now.Add(Patience / 10); next.IsZero() || again.Before(next) {
			next = again
		}
	}
	return all, next, nil
}

// carryOut records parts, with the ends of the tasks that they refuse, and places the offers of
// those that they admit. Until then the scopes of a part are closed to other decisions, so
// decisions grow larger under load. After losing to another scheduler, the scopes stay closed until
// that scheduler's admissions are known.
func (a *admitter) carryOut(ctx context.Context, parts []*quota.Sent) error {
	ok := make([]bool, len(parts))
	failed := sideBySide(len(parts), a.side, func(i int) (err error) {
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
	a.placed(grants)
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

// placed takes over that offers are not on their way any more.
func (a *admitter) placed(grants []task.Grant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, g := range grants {
		delete(a.placing, g.Task)
	}
}

// settle opens the scopes of a part to the next decision.
func (a *admitter) settle(p *quota.Sent) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.book.Settle(p)
}

// record records a part, and undoes it if it is not recorded or its outcome is unknown. It is also
// false if another scheduler's part came first or the answer was lost: catchUp must follow.
func (a *admitter) record(ctx context.Context, p *quota.Sent) (bool, error) {
	stops, err := a.stops(ctx, p)
	first, done := uint64(0), err == nil
	if idle := len(p.Grants)+len(p.Rates)+len(stops) == 0; err == nil && !idle {
		first, done, err = a.rec.Admit(ctx, p.At, p.Scopes, p.Records, p.Heads, p.Known, stops)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if done {
		a.book.Recorded(p, first)
		for _, g := range p.Grants {
			a.placing[g.Task] = true
		}
	} else {
		a.book.Undo(p)
	}
	return done, err
}

// stops returns the ends of tasks that are refused, and the requests to stop tasks that make place.
// They are recorded together with the part, because another scheduler may have admitted a task that
// is refused here, and only the chains of the scopes show that, not the task's own.
func (a *admitter) stops(ctx context.Context, p *quota.Sent) ([]*events.Stop, error) {
	all := slices.Concat(p.Refused, p.Replaced)
	stops := make([]*events.Stop, len(all))
	err := errors.Join(sideBySide(len(all), a.side, func(i int) (err error) {
		r := all[i]
		var c task.Command = task.Refuse{Limit: r.Counter, Detail: "no place under " + r.Counter}
		if i >= len(p.Refused) {
			c = r.Replace()
		}
		stops[i], err = a.rec.Stop(ctx, r.Task, task.Judged{Command: c, By: task.By{
			Rule:  task.RuleLimit,
			Limit: r.Counter,
			Seen:  p.Known.Seen,
		}})
		return err
	})...)
	if err != nil {
		return nil, err
	}
	p.Refused, p.Replaced = p.Refused[:0:0], p.Replaced[:0:0]
	for i, r := range all {
		switch {
		case stops[i] == nil:
			continue // it has moved on
		case r.By == "":
			p.Refused = append(p.Refused, r)
		default:
			p.Replaced = append(p.Replaced, r)
		}
		p.Refuse(r)
	}
	return slices.DeleteFunc(stops, func(s *events.Stop) bool { return s == nil }), err
}

// catchUp waits until this scheduler knows the latest messages on the chains of a part's scopes,
// readable or not. It thereby learns the head of a chain that was unknown.
func (a *admitter) catchUp(ctx context.Context, p *quota.Sent) error {
	ends := make([]uint64, len(p.Scopes))
	for i, of := range p.Scopes {
		_, end, err := a.rec.Log.Latest(ctx, events.Fact{Scope: of})
		if err != nil {
			return err
		}
		ends[i] = end
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
		a.book.Learn(p, ends) // otherwise the next conflict teaches it
	}
	return nil
}

// Admit makes one round of admissions for tasks that limits hold, and returns when to make the next
// at the latest; zero if only a change requires it. [Scheduler.Run] calls it by itself.
func (s *Scheduler) Admit(ctx context.Context) (time.Time, error) {
	if s.admitter == nil {
		return time.Time{}, nil
	}
	return s.admitter.Admit(ctx)
}

// offer places the offers of admitted tasks. A task that has moved on needs none.
func (a *admitter) offer(ctx context.Context, grants []task.Grant) error {
	if len(grants) == 0 {
		return nil
	}
	ids := make([]task.ID, len(grants))
	place := make(map[task.ID]int, len(grants))
	for i, g := range grants {
		ids[i], place[g.Task] = g.Task, i
	}
	tasks, err := a.view.Known(ctx, ids)
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

// offerMissed places the offers of admitted tasks that lack them, whichever scheduler admitted
// them. An offer may be in the log and not in the read model yet, above all when both have much to
// do: then a second offer of each task, which no worker can use, would be more to do.
func (a *admitter) offerMissed(ctx context.Context, now time.Time) error {
	a.mu.Lock()
	open := a.book.Known().Unoffered()
	placing := make([]bool, len(open))
	for i, g := range open {
		placing[i] = a.placing[g.Task]
	}
	reflects := max(a.book.Reflects(), a.observed.Load())
	a.mu.Unlock()
	lacking := make(map[task.ID]unoffered, len(open))
	var again []task.Grant
	end := uint64(0)
	for i, g := range open {
		is, ok := a.lacking[g.Task]
		if !ok || is.turn != g.Turn {
			is = unoffered{turn: g.Turn, since: now}
		}
		// Its time runs from the admission even while its offer is on its way from here: so the
		// schedulers keep their order.
		if is.until == 0 && !placing[i] && now.Sub(is.since) >= offerAgain+a.turns.Wait(string(g.Task)) {
			if end == 0 {
				var err error
				if end, err = a.endOf(ctx, reflects); err != nil {
					return err
				}
			}
			is.until = end
		}
		if is.until > 0 && is.until <= reflects {
			again = append(again, g)
			is = unoffered{turn: g.Turn, since: now}
		}
		lacking[g.Task] = is
	}
	a.lacking = lacking
	for part := range slices.Chunk(again, quota.GrantsAtOnce) {
		if err := a.offer(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// behind tells whether an offer may be missing, and the read model must catch up to tell. The
// scheduler that goes first looks again soon: the next one waits only [Patience] for it.
func (a *admitter) behind() bool {
	for _, is := range a.lacking {
		if is.until > 0 {
			return true
		}
	}
	return false
}

// endOf is the end of the log, or what the read model reflects if that counts as level.
func (a *admitter) endOf(ctx context.Context, reflects uint64) (uint64, error) {
	if a.end == nil {
		return max(reflects, 1), nil
	}
	end, err := a.end(ctx)
	return max(end, 1), err
}

// Limits returns all counters, those with the most waiting tasks first, each with up to holders of
// its holders, and the sequence of the log that this reflects. If name is not "", it returns that
// counter alone. A scheduler that does not admit tasks returns none.
func (s *Scheduler) Limits(name string, holders int) (counters []quota.CounterState, seq uint64) {
	a := s.admitter
	if a == nil {
		return nil, 0
	}
	now := a.rec.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	seq = a.observed.Load()
	return a.book.Known().Told(name, now, holders), seq
}

// errUnread: this scheduler has just started, and does not know yet what counts for its limits.
var errUnread = errors.New("the limits are not read yet")

// Counts returns the beginning of the oldest period whose budget counts at present, for
// [Forget.Counts]; zero for none. The error is that the limits are not known yet.
func (s *Scheduler) Counts(context.Context) (since time.Time, _ error) {
	if a := s.admitter; a != nil {
		a.mu.Lock()
		known := a.book.Loaded()
		a.mu.Unlock()
		if !known {
			return since, errUnread
		}
	}
	counters, _ := s.Limits("", 0)
	for _, c := range counters {
		if c.Budget != nil && (since.IsZero() || c.Budget.Since.Before(since)) {
			since = c.Budget.Since
		}
	}
	return since, nil
}

// Standing returns the position of a task before its limits; false if it has none.
func (s *Scheduler) Standing(id task.ID, holders int) (quota.Standing, bool) {
	a := s.admitter
	if a == nil {
		return quota.Standing{}, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.book.Known().Standing(id, a.rec.Now(), holders)
}
