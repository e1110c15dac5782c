package scheduler

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"millrace/events"
	"millrace/node"
	"millrace/task"
)

// LimitView is what a scheduler asks a read model for to admit tasks. It tells of every
// change through [Scheduler.Observe].
type LimitView interface {
	// EachLimited calls each with every task under limits that has not ended, and the latest
	// admission of it if no offer has followed that is known, else nil. It returns the buckets of
	// rates, and the sequence that all of this reflects.
	EachLimited(ctx context.Context, each func(t *task.Task, admitted *task.Grant)) (rates map[string]time.Time, seq uint64, err error)
	// SaidOfQueues returns the queues about which operators have said something, and what.
	SaidOfQueues(ctx context.Context) ([]task.Queue, error)
	// ByID returns those of some tasks that are known.
	ByID(ctx context.Context, ids []task.ID) ([]task.Task, error)
	// Wait returns when all that is told reflects the log up to a sequence.
	Wait(ctx context.Context, seq uint64) error
}

// Hinter tells a node at once that something became of a task that it runs.
type Hinter interface {
	Hint(id node.ID, about task.ID) error
}

// Paces of admission.
const (
	// grantsAtOnce bounds one admission, so that it stays far below [events.MaxFact].
	grantsAtOnce = 400
	// offerAgain is how long an admitted task may be without an offer before another
	// scheduler than the one that admitted it places that.
	offerAgain = 2 * time.Second
	// admitLook is how often that is looked at, if nothing else happens.
	admitLook = time.Second
)

// admitter decides which tasks their limits admit. Any number of them may run: an admission
// is recorded by compare-and-set on one chain, so each follows from all that were before it,
// and who loses decides again. What it knows it has from the read model, and what that has
// not told yet can only free a place.
type admitter struct {
	view LimitView
	rec  *events.Recorder
	hint Hinter // nil for none
	side int    // how many tasks are refused side by side
	log  zerolog.Logger
	wake chan struct{} // holds one: something has changed
	busy chan struct{} // holds one: tasks wait for a place, so news are urgent

	observed atomic.Uint64 // the latest that was told
	ruled    atomic.Bool   // a queue has a rate or had one, or that is not known yet
	touched  bool          // the batch that is told has something in it; of the goroutine that tells

	mu      sync.Mutex
	known   *task.Limiter        // guarded by mu
	loaded  bool                 // guarded by mu; known reflects what was told
	early   []func()             // guarded by mu; what was told before it was loaded, with
	earlyAt []uint64             // guarded by mu; the sequences of that
	head    uint64               // guarded by mu; the last admission that is in known
	paused  map[string]time.Time // guarded by mu; buckets that are shut because a task asked, and that is not recorded
	missed  map[task.ID]miss     // admitted and not offered: since when; the loop's own
	pruned  time.Time            // the loop's own
}

func newAdmitter(rec *events.Recorder, cfg *Config) *admitter {
	a := &admitter{view: cfg.Limits, rec: rec, hint: cfg.Hints, side: cfg.Refusing, log: cfg.Log, wake: make(chan struct{}, 1), busy: make(chan struct{}, 1), known: task.NewLimiter(), missed: map[task.ID]miss{}}
	a.ruled.Store(true)
	return a
}

// observe implements [reactor].
func (a *admitter) observe(step *events.Step) {
	r := step.Record
	if r.Seq <= a.observed.Load() {
		a.begin() // the read model is made anew
	}
	a.observed.Store(r.Seq)
	switch r.Kind {
	case events.KindLimit:
		if e, ok := r.Fact.Event.(task.Granted); ok {
			a.touched = true
			a.tell(r.Seq, func() { a.granted(r.Seq, e) })
		}
		return
	case events.KindQueue:
		if e, ok := r.Fact.Event.(task.QueueEvent); ok {
			a.touched = true
			a.said(strings.Clone(r.Fact.Queue), r.Seq, r.Fact.At, e)
		}
		return
	}
	if e, ok := r.Fact.Event.(task.AttemptFailed); ok && step.Task != nil {
		if until := asked(e, r.Fact.At); !until.IsZero() {
			a.touched = true
			w := step.Task.Work
			a.tell(r.Seq, func() { a.pause(&w, until) })
		}
	}
	if step.Task == nil || !step.Task.Limited() && !a.mayHaveBeenRated(step) {
		return
	}
	a.touched = true
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.loaded {
		a.known.Put(step.Task)
		return
	}
	t := *step.Task
	if !t.Limited() { // of which no more counts than that
		t = task.Task{ID: t.ID, State: t.State, Seq: t.Seq}
	}
	a.early, a.earlyAt = append(a.early, func() { a.known.Put(&t) }), append(a.earlyAt, r.Seq)
}

// said takes over what was said of a queue.
func (a *admitter) said(name string, seq uint64, at time.Time, e task.QueueEvent) {
	a.tell(seq, func() {
		a.known.Said(name, seq, at, e)
		a.ruled.Store(true)
	})
}

// mayHaveBeenRated tells whether the limiter may know of a task that is under no limit any more: it was
// held or offered under the rate of its queue.
func (a *admitter) mayHaveBeenRated(step *events.Step) bool {
	return a.ruled.Load() && (step.Was.State == task.Held || step.Was.State == task.Pending)
}

// tell applies what was told, now or when the rest is loaded.
func (a *admitter) tell(seq uint64, apply func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.loaded {
		apply()
		return
	}
	a.early, a.earlyAt = append(a.early, apply), append(a.earlyAt, seq)
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

// granted takes over an admission, with mu held. One at or below head is in known already,
// and the buckets have moved on since.
func (a *admitter) granted(seq uint64, e task.Granted) {
	if seq <= a.head {
		return
	}
	a.head = seq
	for _, g := range e.Grants {
		a.known.Granted(g)
	}
	for name, used := range e.Rates {
		if p, ok := a.paused[name]; ok && p.After(used) {
			used = p
		}
		a.known.Bucket(name, task.Bucket(used))
	}
}

// pause remembers that a task asked for a pause of its rates, with mu held: it is recorded
// with the next admission.
func (a *admitter) pause(w *task.Work, until time.Time) {
	for name, bucket := range a.known.Pause(w, until) {
		a.known.Bucket(name, bucket)
		if a.paused == nil {
			a.paused = map[string]time.Time{}
		}
		a.paused[name] = time.Time(bucket)
	}
}

// begin forgets everything.
func (a *admitter) begin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known, a.loaded, a.early, a.earlyAt, a.head, a.paused = task.NewLimiter(), false, nil, nil, 0, nil
	a.ruled.Store(true)
}

// load begins with what the read model holds.
func (a *admitter) load(ctx context.Context) error {
	a.mu.Lock()
	a.early, a.earlyAt, a.head = nil, nil, 0
	a.mu.Unlock()
	known := task.NewLimiter()
	rates, seq, err := a.view.EachLimited(ctx, func(t *task.Task, admitted *task.Grant) {
		known.Put(t)
		if admitted != nil {
			known.Granted(*admitted)
		}
	})
	if err != nil {
		return err
	}
	queues, err := a.view.SaidOfQueues(ctx) // perhaps more than what is told again below
	if err != nil {
		return err
	}
	for _, q := range queues {
		known.Queue(q)
	}
	for name, used := range rates {
		known.Bucket(name, task.Bucket(used))
	}
	last, err := a.rec.Log.Admitted(ctx)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known, a.loaded = known, true
	if last <= seq {
		a.head = last
	}
	for i, apply := range a.early {
		if a.earlyAt[i] > seq {
			apply()
		}
	}
	a.early, a.earlyAt = nil, nil
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
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.wake:
		case <-timer.C:
		}
		began := a.rec.Now()
		next, err := a.Admit(ctx)
		looked(began, a.rec.Now(), err)
		wait := admitLook
		if err != nil {
			if ctx.Err() == nil && !failing {
				a.log.Warn().Err(err).Msg("tasks under limits cannot be admitted; trying again")
			}
			wait = admitLook / 4
		} else if !next.IsZero() {
			wait = min(wait, max(next.Sub(a.rec.Now()), 0))
		}
		failing = err != nil
		timer.Reset(wait)
	}
}

// hurry hurries the read model while tasks wait for a place: it tells when one is free.
func (a *admitter) hurry(ctx context.Context) {
	hurry(ctx, a.view, a.busy, a.observed.Load, a.crowded)
}

func (a *admitter) crowded() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.known.Waiting() > 0
}

// Admit admits once what may go, and returns when to look again at the latest; zero for
// when something happens.
func (a *admitter) Admit(ctx context.Context) (time.Time, error) {
	a.mu.Lock()
	loaded := a.loaded
	a.mu.Unlock()
	if !loaded {
		if err := a.load(ctx); err != nil {
			return time.Time{}, err
		}
	}
	now := a.rec.Now()
	if now.Sub(a.pruned) > time.Minute {
		a.pruned = now
		a.mu.Lock()
		a.known.Prune(now)
		a.mu.Unlock()
	}
	if err := a.offerMissed(ctx, now); err != nil {
		return time.Time{}, err
	}
	now = a.rec.Now() // a rate goes by the time at which is decided
	a.mu.Lock()
	d := a.known.Decide(now, grantsAtOnce)
	head := a.head
	for name, used := range a.paused {
		if t, ok := d.Rates[name]; !ok || used.After(t) {
			d.Rates[name] = used
		}
	}
	a.mu.Unlock()
	if len(d.Grants)+len(d.Rates) > 0 {
		if ok, err := a.record(ctx, &d, head); !ok || err != nil {
			return now, err
		}
		if err := a.offer(ctx, d.Grants); err != nil {
			return now, err
		}
	}
	if a.crowded() {
		signal(a.busy)
	}
	return d.Next, a.refuse(ctx, &d)
}

// record records a decision, and takes it back if somebody else's came first. Then it waits
// until that is known, too.
func (a *admitter) record(ctx context.Context, d *task.Decision, head uint64) (bool, error) {
	seq, err := a.rec.Admit(ctx, task.Granted{Grants: d.Grants, Rates: d.Rates}, head)
	a.mu.Lock()
	if err == nil {
		a.known.Confirm(d)
		a.head = max(a.head, seq)
		for name, used := range d.Rates {
			if p, ok := a.paused[name]; ok && !p.After(used) {
				delete(a.paused, name)
			}
		}
		a.mu.Unlock()
		return true, nil
	}
	a.known.Undo(d)
	a.known.Repeat(slices.Concat(d.Refused, d.Replaced))
	a.mu.Unlock()
	if !errors.Is(err, events.ErrConflict) && !errors.Is(err, events.ErrUnknown) {
		return false, err
	}
	last, err := a.rec.Log.Admitted(ctx)
	if err != nil || last <= head {
		return false, err
	}
	return false, a.view.Wait(ctx, last)
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
	var failed []error
	a.rec.Log.PlaceAll(ctx, facts, func(_ int, _ uint64, err error) {
		if err != nil {
			failed = append(failed, err) // it is missed, then
		}
	})
	return errors.Join(failed...)
}

// offerMissed places the offers of those that were admitted and not offered, by whomever.
func (a *admitter) offerMissed(ctx context.Context, now time.Time) error {
	a.mu.Lock()
	open := a.known.Unoffered()
	a.mu.Unlock()
	missed := make(map[task.ID]miss, len(open))
	var again []task.Grant
	for _, g := range open {
		m, ok := a.missed[g.Task]
		if !ok || m.turn != g.Turn {
			m = miss{g.Turn, now}
		}
		if now.Sub(m.since) >= offerAgain {
			again = append(again, g)
			m.since = now
		}
		missed[g.Task] = m
	}
	a.missed = missed
	for part := range slices.Chunk(again, grantsAtOnce) {
		if err := a.offer(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// refuse ends those for which there is no place and that do not wait, and asks those to stop
// that have to make place.
func (a *admitter) refuse(ctx context.Context, d *task.Decision) error {
	if len(d.Refused)+len(d.Replaced) == 0 {
		return nil
	}
	var g errgroup.Group
	g.SetLimit(a.side)
	var alone []error
	do := func(r task.Refusal, c task.Command) {
		one := func() error {
			err := a.do(ctx, r.Task, c)
			if err != nil {
				a.mu.Lock()
				a.known.Repeat([]task.Refusal{r})
				a.mu.Unlock()
			}
			return err
		}
		if a.side == 1 {
			alone = append(alone, one())
			return
		}
		g.Go(one)
	}
	for _, r := range d.Refused {
		do(r, task.Refuse{Limit: r.Counter, Detail: "no place under " + r.Counter})
	}
	for _, r := range d.Replaced {
		do(r, task.Cancel{Reason: "task " + string(r.By) + " takes its place under " + r.Counter})
	}
	return errors.Join(g.Wait(), errors.Join(alone...))
}

func (a *admitter) do(ctx context.Context, id task.ID, c task.Command) error {
	t, err := a.rec.Load(ctx, id)
	if err != nil {
		return err
	}
	t, event, err := a.rec.Do(ctx, t, c)
	if errors.Is(err, task.ErrEnded) || errors.Is(err, task.ErrNotWaiting) {
		return nil // it has gone on by itself
	}
	if _, stops := event.(task.CancelRequested); stops && a.hint != nil {
		_ = a.hint.Hint(node.ID(t.Node), id) // else the node finds out by itself
	}
	return err
}

// asked is until when a task that failed wants to be left alone; zero if it does not say.
func asked(e task.AttemptFailed, at time.Time) time.Time {
	if e.RetryAfter <= 0 {
		return time.Time{}
	}
	return at.Add(e.RetryAfter.Std())
}
