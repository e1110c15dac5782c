package quota

import (
	"slices"
	"time"

	"millrace/task"
	"millrace/task/limit"
)

// Book is what one scheduler knows of tasks under limits, with its decisions about them. The
// scheduler learns from the read model. If the read model lags behind, the book only misses places
// that have become free; it never admits too many. Callers with several goroutines must guard it.
type Book struct {
	known    *Limiter
	loaded   bool   // known reflects all changes told so far
	reflects uint64 // the read model's sequence when the book was loaded
	early    []early
	paused   map[string]time.Time // buckets shut at a task's request, not recorded yet
	overdue  map[limit.Scope]bool // scopes in which other schedulers should have admitted and have not
}

// early is a change that came before the load. The load may lack a change of a queue, even an older
// one.
type early struct {
	seq     uint64
	ofQueue bool
	apply   func()
}

// NewBook returns an empty book.
func NewBook() *Book { return &Book{known: NewLimiter(), overdue: map[limit.Scope]bool{}} }

// Known returns the present limiter. [Book.Load] replaces it.
func (b *Book) Known() *Limiter { return b.known }

// Loaded tells whether changes are applied at once.
func (b *Book) Loaded() bool { return b.loaded }

// Reflects is the log sequence up to which the book was loaded.
func (b *Book) Reflects() uint64 { return b.reflects }

// Await drops the early changes: the next load includes them.
func (b *Book) Await() { b.early = nil }

// Load starts with the read model's state at a sequence, and applies the early changes since.
func (b *Book) Load(known *Limiter, seq uint64) {
	b.known, b.loaded, b.reflects = known, true, seq
	for _, e := range b.early {
		if e.seq > seq || e.ofQueue {
			e.apply()
		}
	}
	b.early = nil
}

// Defer keeps a change at a sequence until the load.
func (b *Book) Defer(seq uint64, ofQueue bool, apply func()) {
	b.early = append(b.early, early{seq, ofQueue, apply})
}

// Put takes over the state of a task, the time until which it asks for a delay, and the effect of a
// fact on its attempts. Under a budget, a state newer than the fact waits for the task's latest
// fact, because only then is all its usage known. An unknown task is taken over at once, so that
// its admission finds it.
func (b *Book) Put(t *task.Task, until time.Time, took Shift) {
	if !until.IsZero() {
		b.pause(&t.Work, until)
	}
	if took.seq > b.reflects {
		b.known.Spend(took.Counters, took.Shift)
	}
	if took.seq == 0 || took.seq == t.Seq || !b.known.Knows(t.ID) {
		b.known.Put(t)
	}
}

// Granted takes over an admission. It skips admissions up to the head of their scope: known already
// includes them, and the buckets have moved on since.
func (b *Book) Granted(of limit.Scope, seq uint64, e task.Granted) {
	delete(b.overdue, of)
	if seq <= max(b.known.Head(of), b.reflects) {
		return
	}
	b.known.Learn(of, seq)
	for _, g := range e.Grants {
		b.known.Granted(g)
	}
	for name, used := range e.Rates {
		if p := b.paused[name]; p.After(used) {
			used = p
		} else {
			delete(b.paused, name) // some scheduler has recorded it
		}
		b.known.Bucket(name, limit.Bucket(used))
	}
}

// pause shuts the rates of a task that asked for a delay. The next admission records that.
func (b *Book) pause(w *task.Work, until time.Time) {
	for name, bucket := range b.known.Pause(w, until) {
		b.known.Bucket(name, bucket)
		if b.paused == nil {
			b.paused = map[string]time.Time{}
		}
		b.paused[name] = time.Time(bucket)
	}
}

// Overdue records that another scheduler failed to admit in a scope in time, and opens the scope.
func (b *Book) Overdue(of limit.Scope) {
	b.overdue[of] = true
	b.Reopen(of)
}

// Reopen opens a scope that was left to another scheduler.
func (b *Book) Reopen(of limit.Scope) { b.known.Settle(&Decision{Scopes: []limit.Scope{of}}) }

// Sent is a part of a decision on its way to the log.
type Sent struct {
	Decision
	At    time.Time // when it was decided; rates use it
	Heads []uint64  // the known heads of its scopes' chains
	Known task.By   // the known end of the log, and whether the decision was cut

	by *Limiter // the limiter that decided: the present one, or a replaced one
}

// Decide returns the present decision, in parts that share no scope; record, settle or undo each.
// The book includes all changes up to seen. First tells whether this scheduler goes first in a
// scope. Parts in which another one does are undone, and their scopes stay closed: those are left.
// It also returns when to decide again at the latest, zero if only a change requires it.
func (b *Book) Decide(now time.Time, seen uint64, first func(limit.Scope) bool) (all []*Sent, left [][]limit.Scope, next time.Time) {
	d := b.known.Decide(now, GrantsAtOnce)
	for name, used := range b.paused {
		if !used.After(now) {
			delete(b.paused, name) // it is over, and the limiter may have forgotten an unused rate
			continue
		}
		if b.known.UsedUntil(name).After(used) {
			continue // a later admission has shut it for longer; recording this would open it
		}
		if t, ok := d.Rates[name]; (!ok || used.After(t)) && !b.known.Out(name) {
			d.Rates[name] = used
		}
	}
	parts := b.known.Parts(&d)
	by := make([]task.By, len(parts))
	for i := range parts { // before any part is on its way
		by[i] = task.By{Seen: max(b.reflects, seen), Cut: d.Cut, Closed: b.known.Closed(parts[i].Scopes)}
	}
	for i, part := range parts {
		if !b.mine(&part, first) {
			left = append(left, part.Scopes)
			continue
		}
		all = append(all, &Sent{Decision: part, At: now, by: b.known, Heads: b.known.Send(&part), Known: by[i]})
	}
	return all, left, d.Next
}

// mine tells whether this scheduler records a part. If another one goes first, the part is undone,
// and its scopes stay closed until that scheduler has admitted or its time is over.
func (b *Book) mine(p *Decision, first func(limit.Scope) bool) bool {
	late := slices.ContainsFunc(p.Scopes, func(of limit.Scope) bool { return b.overdue[of] })
	if len(p.Scopes) == 0 || late || first(p.Scopes[0]) {
		for _, of := range p.Scopes {
			delete(b.overdue, of)
		}
		return true
	}
	b.known.Undo(p)
	b.known.Repeat(slices.Concat(p.Refused, p.Replaced))
	b.known.Send(p)
	return false
}

// Holds tells whether the present limiter decided the part, and not a replaced one.
func (b *Book) Holds(p *Sent) bool { return p.by == b.known }

// Settle opens the scopes of a part to the next decision.
func (b *Book) Settle(p *Sent) {
	if b.Holds(p) {
		b.known.Settle(&p.Decision)
	}
}

// Recorded takes over that a part is in the log from a sequence on, 0 if there was nothing to
// record.
func (b *Book) Recorded(p *Sent, first uint64) {
	if !b.Holds(p) {
		return
	}
	b.known.Confirm(&p.Decision, first)
	for i, of := range p.Scopes {
		if first > 0 {
			b.known.Learn(of, first+uint64(i))
		}
	}
	for name, used := range p.Rates {
		if p, ok := b.paused[name]; ok && !p.After(used) {
			delete(b.paused, name)
		}
	}
}

// Undo reverts a part that is not recorded, or whose outcome is unknown.
func (b *Book) Undo(p *Sent) {
	if !b.Holds(p) {
		return
	}
	b.known.Undo(&p.Decision)
	b.known.Repeat(slices.Concat(p.Refused, p.Replaced))
}

// Learn takes over the heads of a part's scopes. All changes up to them must have been told.
func (b *Book) Learn(p *Sent, ends []uint64) {
	for i, of := range p.Scopes {
		b.known.Learn(of, ends[i])
		b.known.Emptied(of, ends[i], p.Heads[i])
	}
}
