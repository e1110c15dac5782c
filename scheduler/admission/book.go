package admission

import (
	"slices"
	"time"

	"millrace/task"
	"millrace/task/limit"
	"millrace/task/quota"
)

// Book is what a scheduler knows of tasks under limits, and has decided about them. What it knows it has from the read model,
// and what that has not told yet can only free a place. Whoever uses it from several goroutines guards it.
type Book struct {
	known    *quota.Limiter
	loaded   bool   // known reflects what was told
	reflects uint64 // and what the read model held up to this sequence, when it was loaded
	early    []early
	paused   map[string]time.Time // buckets that are shut because a task asked, and that is not recorded
	overdue  map[limit.Scope]bool // scopes in which other schedulers should have admitted, and have not
}

// early is what was told before the rest was loaded. Of a queue it may be that it was loaded without.
type early struct {
	seq     uint64
	ofQueue bool
	apply   func()
}

// New returns a book in which nothing stands.
func New() *Book { return &Book{known: quota.NewLimiter(), overdue: map[limit.Scope]bool{}} }

// Known is what is known. It is another one after [Book.Load].
func (b *Book) Known() *quota.Limiter { return b.known }

// Loaded tells whether what was told is taken over at once.
func (b *Book) Loaded() bool { return b.loaded }

// Reflects is up to which sequence of the log the book was loaded.
func (b *Book) Reflects() uint64 { return b.reflects }

// Await forgets what was told early: what is loaded next has it.
func (b *Book) Await() { b.early = nil }

// Load begins with what the read model held up to a sequence, and with what was told since.
func (b *Book) Load(known *quota.Limiter, seq uint64) {
	b.known, b.loaded, b.reflects = known, true, seq
	for _, e := range b.early {
		if e.seq > seq || e.ofQueue {
			e.apply()
		}
	}
	b.early = nil
}

// Defer keeps what was told by a sequence until the rest is loaded.
func (b *Book) Defer(seq uint64, ofQueue bool, apply func()) {
	b.early = append(b.early, early{seq, ofQueue, apply})
}

// Put takes over what has become of a task, until when it asks to be left alone, and what a fact did to its attempts. Of a
// task under budgets that is further than the fact is taken over how it is with its last one, for until then not all is known that it has used up. One
// of which nothing was known is taken over at once, so that its admission finds it.
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

// Granted takes over an admission. One at or below the head of its scope is in known already,
// and the buckets have moved on since.
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
			delete(b.paused, name) // whoever has recorded it
		}
		b.known.Bucket(name, limit.Bucket(used))
	}
}

// pause remembers that a task asked for a pause of its rates: it is recorded with the next admission.
func (b *Book) pause(w *task.Work, until time.Time) {
	for name, bucket := range b.known.Pause(w, until) {
		b.known.Bucket(name, bucket)
		if b.paused == nil {
			b.paused = map[string]time.Time{}
		}
		b.paused[name] = time.Time(bucket)
	}
}

// Overdue notes that another scheduler should have admitted in a scope and has not, and opens that.
func (b *Book) Overdue(of limit.Scope) {
	b.overdue[of] = true
	b.Reopen(of)
}

// Reopen opens a scope to decisions that was left to another scheduler.
func (b *Book) Reopen(of limit.Scope) { b.known.Settle(&quota.Decision{Scopes: []limit.Scope{of}}) }

// Sent is a part of a decision that is on its way.
type Sent struct {
	quota.Decision
	At    time.Time // when it was decided: a rate goes by that
	Heads []uint64  // where the chains of its scopes ended
	Known task.By   // up to where the log was, and whether the decision was cut

	by *quota.Limiter // who decided it: the present one, or one that has been forgotten
}

// Decide decides what may go now, in parts that share no scope: each is recorded, settled or undone. What was told reaches seen. First tells
// in which scope this scheduler goes first. Parts in which another one does are taken back, and their scopes are closed: those are left.
// It returns when to look again at the latest, zero for when something happens.
func (b *Book) Decide(now time.Time, seen uint64, first func(limit.Scope) bool) (all []*Sent, left [][]limit.Scope, next time.Time) {
	d := b.known.Decide(now, quota.GrantsAtOnce)
	for name, used := range b.paused {
		if !used.After(now) {
			delete(b.paused, name) // it is over, and of a rate that nobody needs the limiter may have forgotten more
			continue
		}
		if b.known.UsedUntil(name).After(used) {
			continue // what was admitted since has shut it for longer, and to record this would open it
		}
		if t, ok := d.Rates[name]; (!ok || used.After(t)) && !b.known.Out(name) {
			d.Rates[name] = used
		}
	}
	parts := b.known.Parts(&d)
	by := make([]task.By, len(parts))
	for i := range parts { // before any is on its way
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

// mine tells whether a part is to be recorded here. If another scheduler goes first it is taken back, and its scopes are
// closed until that one has admitted, or had its time.
func (b *Book) mine(p *quota.Decision, first func(limit.Scope) bool) bool {
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

// Holds tells whether a part was decided by what is known now, and not by what was forgotten since.
func (b *Book) Holds(p *Sent) bool { return p.by == b.known }

// Settle opens what a part takes from to the next decision.
func (b *Book) Settle(p *Sent) {
	if b.Holds(p) {
		b.known.Settle(&p.Decision)
	}
}

// Recorded takes over that a part lies in the log from a sequence on, 0 if nothing had to be recorded.
func (b *Book) Recorded(p *Sent, first uint64) {
	if !b.Holds(p) {
		return
	}
	b.known.Confirm(&p.Decision)
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

// Undo takes a part back that is not recorded, or of which nobody knows.
func (b *Book) Undo(p *Sent) {
	if !b.Holds(p) {
		return
	}
	b.known.Undo(&p.Decision)
	b.known.Repeat(slices.Concat(p.Refused, p.Replaced))
}

// Learn takes over where the chains of a part's scopes end, for what was told reaches all of that.
func (b *Book) Learn(p *Sent, ends []uint64) {
	for i, of := range p.Scopes {
		b.known.Learn(of, ends[i])
	}
}
