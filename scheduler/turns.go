package scheduler

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"millrace/events"
	"millrace/task"
)

// Several schedulers may do the same thing: the log accepts it once. But each try costs reads and writes. So
// one of them goes first, for each task, scope, job or node another one, and the rest do it only if the first one
// has not.

const (
	// patience is how long a scheduler leaves to another what that one goes first in.
	patience = time.Second
	// hereEvery is how often a scheduler says that it is here. One that has said nothing for goneAfter is gone: by the
	// time that others do what it has left undone, nothing more is left to it.
	hereEvery, goneAfter = patience / 4, 3 * hereEvery
	// goesLast bounds how many go before a scheduler, so that what several dead ones have left is not late by
	// more than twice patience.
	goesLast = 2
)

// Peers are the schedulers of an installation, among themselves.
type Peers interface {
	// Meet calls heard with each word of a scheduler, until leave is called. It may hear its own.
	Meet(heard func(name string, here bool)) (leave func(), err error)
	// Say tells all that a scheduler is here, or that it goes. The word may be lost.
	Say(name string, here bool) error
}

// turns says who goes first among the schedulers that are here. Safe for concurrent use.
type turns struct {
	name  string
	alone atomic.Bool   // spares one that knows of no other the lock
	came  chan struct{} // holds one: somebody is new

	mu     sync.Mutex
	here   bool                 // guarded by mu; the others may count on this one
	others map[string]time.Time // guarded by mu; when each was heard last
}

func newTurns(name string) *turns {
	t := &turns{name: name, came: make(chan struct{}, 1), others: map[string]time.Time{}}
	t.alone.Store(true)
	return t
}

// hear takes in a word of a scheduler.
func (t *turns) hear(name string, here bool) {
	if name == t.name {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.others[name]; here && !known {
		poke(t.came)
	}
	if here {
		t.others[name] = time.Now()
	} else {
		delete(t.others, name)
	}
	t.alone.Store(len(t.others) == 0)
}

// join says whether the others may count on this one from now on.
func (t *turns) join(here bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.here = here
}

// joined tells whether the others may count on this one.
func (t *turns) joined() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.here
}

// wait is how long this scheduler leaves what key names to others; zero if it goes first.
func (t *turns) wait(key string) time.Duration {
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
		before = place(t.name, maps.Keys(t.others), key)
	}
	return time.Duration(min(before, goesLast)) * patience
}

// first tells whether this scheduler goes first. Whoever asks again and again needs no more than that: a scheduler
// that has died goes first no longer than goneAfter.
func (t *turns) first(key string) bool { return t.wait(key) == 0 }

// place is how many of the others go before a scheduler with what key names. All come to the same order
// (rendezvous hashing), and one that comes or goes changes no more than its own share.
func place(name string, others iter.Seq[string], key string) (before int) {
	own := weight(name, key)
	for other := range others {
		if w := weight(other, key); w > own || w == own && other > name {
			before++
		}
	}
	return before
}

// weight is FNV-1a of both, mixed once more so that keys that differ at their end only are spread as well.
func weight(name, key string) uint64 {
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

// left is what this scheduler has left to those that go before it, because of a fact that is told once. Whoever
// sees in the log that it is done drops it; what is late is this scheduler's. Safe for concurrent use.
type left struct {
	turns *turns
	wake  chan struct{} // holds one: there is something
	some  atomic.Bool   // spares one that has left nothing the lock

	mu    sync.Mutex
	until map[string]time.Time // guarded by mu
}

func (t *turns) left() *left {
	return &left{turns: t, wake: make(chan struct{}, 1), until: map[string]time.Time{}}
}

// mine tells whether this scheduler has to do now what key names. If not, it is left to others for a while.
func (l *left) mine(key string) bool {
	wait := l.turns.wait(key)
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
			poke(l.wake)
		}
		return false
	}
	if wait > 0 && now.Before(until) {
		return false
	}
	l.remove(key)
	return true
}

// leave leaves what key names to those that go before this scheduler with another key.
func (l *left) leave(key, with string) {
	until := time.Now().Add(l.turns.wait(with))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until[key] = until
	if !l.some.Swap(true) {
		poke(l.wake)
	}
}

// clear forgets everything.
func (l *left) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.until)
	l.some.Store(false)
}

// drop forgets what is done. It tells whether it was left to others.
func (l *left) drop(key string) bool {
	if !l.some.Load() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, known := l.until[key]
	l.remove(key)
	return known
}

// remove is called with mu held.
func (l *left) remove(key string) {
	delete(l.until, key)
	l.some.Store(len(l.until) > 0)
}

// late lists what nobody has done in time, in order. Each is left to others until mine is asked for it.
func (l *left) late() (keys []string) {
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

// lateTasks is late of tasks.
func (l *left) lateTasks() (ids []task.ID) {
	for _, key := range l.late() {
		ids = append(ids, task.ID(key))
	}
	return ids
}

// again tells when to look what is late: as it was set before, unless that is nil; nil while nothing is left to others.
func (l *left) again(set <-chan time.Time) <-chan time.Time {
	if set != nil || !l.some.Load() {
		return set
	}
	return time.After(patience / 10)
}

// done is a scheduler that sees what others have done of what it has left to them, as far as no other part of it does.
type done Scheduler

// observe implements [reactor].
func (d *done) observe(step *events.Step) {
	f := &step.Record.Fact
	if f.By != nil && f.By.Rule == task.RuleDead {
		d.dead.drop(strconv.FormatUint(f.By.Offer, 10))
	}
}

// First tells whether this scheduler goes first with what a name stands for.
func (s *Scheduler) First(what string) bool { return s.turns.first(what) }

// meet keeps the others told of this scheduler while it is fit, and it of them, until ctx ends.
func (s *Scheduler) meet(ctx context.Context) error {
	peers := s.cfg.Peers
	if peers == nil {
		return nil
	}
	leave, err := peers.Meet(s.turns.hear)
	if err != nil {
		return err
	}
	defer leave()
	tick := time.NewTicker(hereEvery)
	defer tick.Stop()
	for here := false; ; {
		if fit := s.fitness.fit(); fit || here {
			here = fit
			s.turns.join(here)
			_ = peers.Say(s.turns.name, here) // or the next time
		}
		select {
		case <-ctx.Done():
			_ = peers.Say(s.turns.name, false) // else they find out
			return nil
		case <-tick.C:
		case <-s.turns.came: // so that it hears of this one at once
		}
	}
}
