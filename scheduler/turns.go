package scheduler

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Several schedulers may take the same step: the log accepts it once. But each attempt costs reads
// and writes. So one of them goes first, a different one for each task, scope, job or node. The
// others act only if the first one has not.

const (
	// Patience is how long a scheduler leaves a subject to the one that goes first with it.
	Patience = time.Second
	// HereEvery is the interval at which a scheduler announces itself. One that was silent for
	// goneAfter counts as gone: by the time that others do its unfinished work, nothing more is
	// left to it.
	HereEvery, goneAfter = Patience / 4, 3 * HereEvery
	// GoesLast bounds how many go before a scheduler, so that the unfinished work of several dead
	// ones is delayed by at most twice Patience.
	GoesLast = 2
)

// Peers connects the schedulers of an installation with each other.
type Peers interface {
	// Meet calls heard with each announcement of a scheduler, until leave is called. It may hear
	// its own.
	Meet(heard func(name string, here bool)) (leave func(), err error)
	// Say announces to all that a scheduler is here, or that it leaves. The announcement may be
	// lost.
	Say(name string, here bool) error
}

// Precedence decides which of the present schedulers goes first. Safe for concurrent use.
type Precedence struct {
	Name  string
	alone atomic.Bool   // spares a scheduler without peers the lock
	came  chan struct{} // holds one: there is a newcomer

	mu     sync.Mutex
	here   bool                 // guarded by mu; the others may rely on this one
	others map[string]time.Time // guarded by mu; when each was last heard
}

// NewPrecedence returns the precedence of the scheduler with a name, which counts as alone until it hears of
// another.
func NewPrecedence(name string) *Precedence {
	t := &Precedence{Name: name, came: make(chan struct{}, 1), others: map[string]time.Time{}}
	t.alone.Store(true)
	return t
}

// Hear takes an announcement of a scheduler.
func (t *Precedence) Hear(name string, here bool) {
	if name == t.Name {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.others[name]; here && !known {
		Poke(t.came)
	}
	if here {
		t.others[name] = time.Now()
	} else {
		delete(t.others, name)
	}
	t.alone.Store(len(t.others) == 0)
}

// Join sets whether the others may rely on this scheduler from now on.
func (t *Precedence) Join(here bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.here = here
}

// Alone tells whether no other scheduler is known.
func (t *Precedence) Alone() bool { return t.alone.Load() }

// Others returns the names of the other schedulers that are present, in no order.
func (t *Precedence) Others() (names []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, heard := range t.others {
		if time.Since(heard) <= goneAfter {
			names = append(names, name)
		}
	}
	return names
}

// Joined tells whether the others may rely on this scheduler.
func (t *Precedence) Joined() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.here
}

// Wait is how long this scheduler leaves a key to others; zero if it goes first.
func (t *Precedence) Wait(key string) time.Duration {
	if t.alone.Load() {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(t.others, func(_ string, heard time.Time) bool { return now.Sub(heard) > goneAfter })
	t.alone.Store(len(t.others) == 0)
	before := len(t.others)
	if t.here {
		before = place(t.Name, maps.Keys(t.others), key)
	}
	return time.Duration(min(before, GoesLast)) * Patience
}

// First tells whether this scheduler goes first. It is enough for a caller that asks repeatedly: a
// dead scheduler goes first for at most goneAfter.
func (t *Precedence) First(key string) bool { return t.Wait(key) == 0 }

// place is how many of the others go before a scheduler with a key. All compute the same order
// (rendezvous hashing), and a scheduler that comes or goes changes only its own share.
func place(name string, others iter.Seq[string], key string) (before int) {
	own := Weight(name, key)
	for other := range others {
		if w := Weight(other, key); w > own || w == own && other > name {
			before++
		}
	}
	return before
}

// Weight is FNV-1a of both, mixed once more so that keys that differ only at their ends are spread
// as well.
func Weight(name, key string) uint64 {
	h := uint64(14695981039346656037)
	for _, s := range [...]string{name, "\x00", key} {
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * 1099511628211
		}
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// Deferred tracks subjects that this scheduler has left to those before it, after facts that it sees
// only once. Drop a subject when the log shows that it is done; late ones fall to this scheduler.
// Safe for concurrent use.
type Deferred struct {
	turns *Precedence
	wake  chan struct{} // holds one: there is an entry
	some  atomic.Bool   // spares a scheduler without entries the lock

	mu    sync.Mutex
	until map[string]time.Time // guarded by mu
}

// Deferred returns an empty list of what is left to other schedulers.
func (t *Precedence) Left() *Deferred {
	return &Deferred{turns: t, wake: make(chan struct{}, 1), until: map[string]time.Time{}}
}

// Mine tells whether this scheduler must handle a key now. If not, the key is left to others for a
// while.
func (l *Deferred) Mine(key string) bool {
	wait := l.turns.Wait(key)
	if wait == 0 && !l.some.Load() {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	until, known := l.until[key]
	if wait > 0 && !known {
		l.until[key] = now.Add(wait)
		if !l.some.Swap(true) {
			Poke(l.wake)
		}
		return false
	}
	if wait > 0 && now.Before(until) {
		return false
	}
	l.remove(key)
	return true
}

// Leave leaves a key to the schedulers that go before this one with the key with.
func (l *Deferred) Leave(key, with string) {
	until := time.Now().Add(l.turns.Wait(with))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until[key] = until
	if !l.some.Swap(true) {
		Poke(l.wake)
	}
}

// Clear forgets everything.
func (l *Deferred) Clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.until)
	l.some.Store(false)
}

// Drop removes a finished key. It tells whether the key was left to others.
func (l *Deferred) Drop(key string) bool {
	if !l.some.Load() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, known := l.until[key]
	l.remove(key)
	return known
}

// remove needs mu held.
func (l *Deferred) remove(key string) {
	delete(l.until, key)
	l.some.Store(len(l.until) > 0)
}

// Late lists, in order, the keys that were not done in time. Each counts as left to others until
// Mine is called for it.
func (l *Deferred) Late() (keys []string) {
	if !l.some.Load() {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for key, until := range l.until {
		if !now.Before(until) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Again returns the timer of the next check for late keys: set, unless that is nil; nil while
// nothing is left to others.
func (l *Deferred) Again(set <-chan time.Time) <-chan time.Time {
	if set != nil || !l.some.Load() {
		return set
	}
	return time.After(Patience / 10)
}

// Poke wakes the listener of a channel, if it was not woken already.
func Poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// First tells whether this scheduler goes first with the subject named what.
func (s *Scheduler) First(what string) bool { return s.turns.First(what) }

// meet announces this scheduler to the others while it is fit, and listens to them, until ctx ends.
func (s *Scheduler) meet(ctx context.Context) error {
	peers := s.cfg.Peers
	if peers == nil {
		return nil
	}
	leave, err := peers.Meet(s.turns.Hear)
	if err != nil {
		return err
	}
	defer leave()
	ticker := time.NewTicker(HereEvery)
	defer ticker.Stop()
	for here := false; ; {
		if fit := s.fitness.Fit(); fit || here {
			here = fit
			s.turns.Join(here)
			_ = peers.Say(s.turns.Name, here) // or the next time
		}
		select {
		case <-ctx.Done():
			_ = peers.Say(s.turns.Name, false) // else they find out
			return nil
		case <-ticker.C:
		case <-s.turns.came: // so that the newcomer hears of this one at once
		}
	}
}

// keepLevel checks repeatedly whether the read model is level with the log, until ctx ends. A
// scheduler without peers need not know.
func (s *Scheduler) keepLevel(ctx context.Context) {
	view, hurried := s.view.(Hurried)
	repeat(ctx, func() time.Duration {
		if !hurried || s.cfg.Last == nil || s.turns.Joined() && s.turns.Alone() {
			s.fitness.Level()
		} else {
			waiting, cancel := context.WithTimeout(ctx, StuckAfter)
			last, err := s.cfg.Last(waiting)
			if err == nil {
				err = view.Wait(waiting, last)
			}
			if cancel(); err == nil {
				s.fitness.Level()
			}
		}
		return Patience
	})
}

// While a scheduler announces itself, the others leave to it the subjects with which it goes first.
// So it announces itself only while it is fit for that: its loops complete their rounds, and its
// read model is level with the log. An unfit one goes last.

// StuckAfter is how long a round may last, or the read model lag behind the log, before a scheduler
// counts as unfit.
const StuckAfter = 10 * time.Second

// Fitness is a scheduler's own health. The zero value is fit once level was called. Safe for
// concurrent use.
type Fitness struct {
	mu     sync.Mutex
	loops  map[string]rounds // guarded by mu
	levels time.Time         // guarded by mu; when the read model was last level with the log
}

// rounds are the rounds of a loop.
type rounds struct {
	began  time.Time // the start of the present round; zero if there is none
	failed bool      // the last complete round failed
}

// Begins notes that a round of a loop begins.
func (f *Fitness) Begins(loop string) { f.set(loop, func(r *rounds) { r.began = time.Now() }) }

// Ends notes that the round has ended, and whether it failed.
func (f *Fitness) Ends(loop string, err error) {
	f.set(loop, func(r *rounds) { r.began, r.failed = time.Time{}, err != nil })
}

func (f *Fitness) set(loop string, to func(*rounds)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.loops == nil {
		f.loops = map[string]rounds{}
	}
	r := f.loops[loop]
	to(&r)
	f.loops[loop] = r
}

// Level records that the read model has everything that the log held a moment ago.
func (f *Fitness) Level() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.levels = time.Now()
}

// Fit tells whether others may rely on the scheduler.
func (f *Fitness) Fit() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if now.Sub(f.levels) > StuckAfter {
		return false
	}
	for _, r := range f.loops {
		if r.failed || !r.began.IsZero() && now.Sub(r.began) > StuckAfter {
			return false
		}
	}
	return true
}
