package quota

import (
	"cmp"
	"maps"
	"millrace/task"
	"millrace/task/limit"
	"slices"
	"time"
)

// Decision is the set of actions that limits require.
type Decision struct {
	Grants []task.Grant
	// Rates are the buckets from which the grants draw, with their state afterwards.
	Rates map[string]time.Time
	// Refused are tasks that end because their limit has no place for them and they do not wait.
	Refused []Refusal
	// Replaced are tasks to stop so that newer ones get their place. Refused and Replaced together
	// have at most refusedAtOnce.
	Replaced []Refusal
	// Next is when to decide again if nothing happens before; zero for never.
	Next time.Time
	// Scopes are the scopes on whose chains to record the decision, in order, and Records the
	// record for each. Both are set only in parts of a decision, see [Limiter.Parts].
	Scopes  []limit.Scope
	Records []task.Granted

	was    map[string]bucketWas
	lines  []*line        // of Grants
	scopes map[*scope]int // how many of Grants draw from each
	aside  []*line        // one of their scopes has enough grants
	more   bool           // further tasks are to be refused
	// Cut says that the decision reached its size limit and left the rest to the next one.
	Cut bool
}

// GrantsAtOnce bounds the grants of a decision under one scope, so that a fact stays far below the
// log's size limit.
const GrantsAtOnce = 400

// scopesAtOnce bounds the chains of one decision before its last grant, which may have 16 limits
// and a queue. All records of a part are written in one batch, and the log takes 500 facts in one.
const scopesAtOnce = 400

// refusedAtOnce bounds the refusals of one decision: the ends of these tasks are in the same batch.
const refusedAtOnce = 64

// bucketWas is a bucket before a decision, and how often it had been set from outside.
type bucketWas struct {
	bucket limit.Bucket
	told   int
}

// Refusal names a task and the counter without a place for it.
type Refusal struct {
	Task    task.ID
	Counter string
	// By is the newer task for which it must make place; "" if there is none.
	By task.ID
}

// Empty tells whether there is nothing to do now.
func (d *Decision) Empty() bool { return len(d.Grants)+len(d.Refused)+len(d.Replaced) == 0 }

// atOnce bounds the grants of one decision, as a multiple of those of one scope.
const atOnce = 16

// Decide returns the present decision, with at most most grants under each scope, and assumes that
// it will be recorded. [Limiter.Undo] reverts an unrecorded one.
func (a *Limiter) Decide(now time.Time, most int) Decision {
	d := a.admit(now, most)
	a.refuse(&d)
	if d.Cut = d.Cut || d.more; d.Cut || a.ready.Len() > 0 {
		d.Next = now
		return d
	}
	if a.due.Len() > 0 {
		d.Next = a.due.First().due
	}
	if a.opening.Len() > 0 && (d.Next.IsZero() || a.opening.First().opens.Before(d.Next)) {
		d.Next = a.opening.First().opens
	}
	return d
}

// Again returns the grants of [Limiter.Decide] while some scopes are closed, and assumes that they
// will be recorded. The limiter may have decided for a later time before: clocks differ.
func (a *Limiter) Again(now time.Time, most int, closed []limit.Scope) Decision {
	if now.Before(a.latest) {
		a.rewind(now)
	}
	shut := Decision{Scopes: closed}
	a.Send(&shut)
	d := a.admit(now, most)
	a.Settle(&shut)
	return d
}

// rewind puts tasks to sleep again whose time has not come at now.
func (a *Limiter) rewind(now time.Time) {
	for _, e := range a.entries {
		if e.phase == waiting && e.due.After(now) {
			a.leave(e)
			e.woken = false
			a.wait(e)
		}
	}
	a.latest = now
}

// admit computes the grants of a decision.
func (a *Limiter) admit(now time.Time, most int) Decision {
	d := Decision{Rates: map[string]time.Time{}, was: map[string]bucketWas{}, scopes: map[*scope]int{}}
	for a.due.Len() > 0 && !a.due.First().due.After(now) {
		e := a.due.First()
		a.due.Pop()
		if e.due.After(a.latest) {
			a.latest = e.due
		}
		e.woken = true
		a.queue(e)
	}
	for a.opening.Len() > 0 && !a.opening.First().opens.After(now) {
		a.wake(a.opening.First())
	}
	for a.ready.Len() > 0 && len(d.Grants) < atOnce*most && len(d.scopes) < scopesAtOnce && len(d.aside) < most {
		a.look(&d, now, most)
	}
	d.Cut = a.ready.Len() > 0
	for _, l := range d.aside {
		a.get(l)
	}
	d.aside = nil
	return d
}

// look admits the first task of the best line, or rests the line.
func (a *Limiter) look(d *Decision, now time.Time, most int) {
	l := a.ready.First()
	a.ready.Pop()
	l.inReady = false
	if gate := l.closed(); gate != nil {
		a.park(l, gate, now)
		a.passOn(l, gate, now)
		return
	}
	if at := l.obstacle(now); at != nil {
		a.park(l, at, now)
		a.judge(l)
		// A place that its other counters have left may serve a task in another line.
		a.passOn(l, at, now)
		return
	}
	for _, s := range l.scopes {
		if d.scopes[s] >= most {
			d.aside = append(d.aside, l)
			a.passOn(l, nil, now)
			return
		}
	}
	e := l.first()
	g := task.Grant{Task: e.id, Turn: e.turn, Rated: l.queue.RateSince, Limits: make([]string, 0, len(l.slots)+len(l.rates))}
	for c := range l.counters() {
		if c != l.offered {
			g.Limits = append(g.Limits, c.name)
		}
	}
	for _, r := range l.rates {
		if _, known := d.was[r.name]; !known {
			d.was[r.name] = bucketWas{r.bucket, r.told}
		}
		r.bucket = r.bucket.Take(r.how, now)
		d.Rates[r.name] = time.Time(r.bucket)
	}
	for _, s := range l.scopes {
		d.scopes[s]++
	}
	d.Grants, d.lines = append(d.Grants, g), append(d.lines, l)
	a.leave(e)
	e.granted, e.rated, e.sure, e.open = e.turn, g.Rated, true, true
	a.hold(e)
	// There may be another place, which the lines that rest there do not know of.
	a.passOn(l, nil, now)
}

// obstacle is the first counter without a place for the first task of a line; nil if all have one.
func (l *line) obstacle(now time.Time) *counter {
	for _, s := range l.slots {
		if s.full() {
			return s.counter
		}
	}
	for _, f := range l.funds {
		if f.spent(now) {
			return f.counter
		}
	}
	for _, r := range l.rates {
		if r.shut(now) {
			return r.counter
		}
	}
	if l.waitsForStarts() {
		return l.offered
	}
	return nil
}

// waitsForStarts tells whether the queue's rate has admitted as many tasks as may wait for their
// start.
func (l *line) waitsForStarts() bool {
	return l.offered != nil && len(l.offered.holders) >= l.offered.max
}

// park rests a line at a counter.
func (a *Limiter) park(l *line, at *counter, now time.Time) {
	l.rests, l.head = at.row(l), l.first()
	l.rests.lines.Push(l)
	a.await(at, l, now)
}

// await schedules a look at a rate or budget for when it opens for a line. The holders of any other
// counter wake it.
func (a *Limiter) await(at *counter, l *line, now time.Time) {
	opens, ok := l.opens(at, now)
	switch {
	case !ok:
	case at.index < 0:
		at.opens = opens
		a.opening.Push(at)
	case opens.Before(at.opens):
		at.opens = opens
		a.opening.Fix(at.index)
	}
}

// opens is when a rate of the line admits the next task, or when the budget's next period begins;
// false if the counter is neither.
func (l *line) opens(at *counter, now time.Time) (time.Time, bool) {
	if at.budget {
		_, next := at.period.Bounds(now)
		return next, true
	}
	for _, r := range l.rates {
		if r.counter == at {
			return at.bucket.Opens(r.how), true
		}
	}
	return time.Time{}, false
}

// passOn wakes lines that rest at the counters of a line and could have a place there, except at
// one counter.
func (a *Limiter) passOn(l *line, but *counter, now time.Time) {
	for c := range l.counters() {
		if c == but {
			continue
		}
		for _, r := range c.rows {
			if r.lines.Len() == 0 {
				continue
			}
			if next := r.lines.First(); next.blocked(c, now) {
				a.await(c, next, now)
			} else {
				a.get(r.lines.Pop())
			}
		}
	}
}

// blocked tells whether a counter has no place for a line.
func (l *line) blocked(at *counter, now time.Time) bool {
	for _, s := range l.slots {
		if s.counter == at {
			return s.full()
		}
	}
	for _, f := range l.funds {
		if f.counter == at {
			return f.spent(now)
		}
	}
	if at == l.offered {
		return l.waitsForStarts()
	}
	opens, _ := l.opens(at, now)
	return opens.After(now)
}

// judge schedules decisions about the tasks of a line without a place that do not simply wait.
func (a *Limiter) judge(l *line) {
	if !l.picky {
		return
	}
	if refuses, makesRoom, full := l.verdict(); full == 0 || refuses == nil && len(makesRoom) < full {
		return
	}
	for _, e := range l.waiting.All() {
		if e.first {
			a.fresh[e.id] = struct{}{}
		}
	}
}

// refuse decides about the tasks that do not simply wait.
func (a *Limiter) refuse(d *Decision) {
	var judged []task.ID
	for id := range a.fresh {
		if e := a.entries[id]; e.line.inReady || e.line.closed() != nil {
			continue // not examined yet, or its competitor is uncertain
		}
		judged = append(judged, id)
	}
	slices.Sort(judged)
	if d.more = len(judged) > refusedAtOnce; d.more {
		judged = judged[:refusedAtOnce]
	}
	var replacing []*counter
	for _, id := range judged {
		e := a.entries[id]
		delete(a.fresh, id) // until its line is examined again
		refuses, makesRoom, full := e.line.verdict()
		switch {
		case full == 0: // only a rate keeps it waiting
		case refuses != nil:
			d.Refused = append(d.Refused, Refusal{Task: id, Counter: refuses.name})
		case len(makesRoom) == full:
			for _, c := range makesRoom {
				if !slices.Contains(replacing, c) {
					replacing = append(replacing, c)
				}
			}
		}
	}
	for _, c := range replacing {
		gone := c.oldest()
		if most := refusedAtOnce - len(d.Refused) - len(d.Replaced); len(gone) > most {
			gone, d.more = gone[:most], true
			a.refresh(c)
		}
		for _, r := range gone {
			a.entries[r.Task].asked = true
		}
		d.Replaced = append(d.Replaced, gone...)
	}
	slices.SortFunc(d.Replaced, func(x, y Refusal) int { return cmp.Or(cmp.Compare(x.Task, y.Task), cmp.Compare(x.Counter, y.Counter)) })
}

// verdict is what the full bounds of a line mean for a new task: the first that refuses it (nil if
// none does), those in which it replaces an old task, and how many are full. No task is cancelled
// for one that would have to wait for another bound nevertheless.
func (l *line) verdict() (refuses *counter, makesRoom []*counter, full int) {
	for _, s := range l.slots {
		if !s.full() {
			continue
		}
		full++
		switch s.onLimit {
		case limit.Skip, limit.Fail:
			if refuses == nil {
				refuses = s.counter
			}
		case limit.CancelOld:
			makesRoom = append(makesRoom, s.counter)
		}
	}
	return refuses, makesRoom, full
}

// refresh schedules new decisions about the tasks that are to replace others under a counter.
func (a *Limiter) refresh(c *counter) {
	for e := range c.replacing {
		a.fresh[e.id] = struct{}{}
	}
}

// Oldest returns the tasks that must make place under a counter, the oldest first.
func (a *Limiter) Oldest(counter string) []Refusal {
	if c := a.counters[counter]; c != nil {
		return c.oldest()
	}
	return nil
}

// Full tells whether a task waits and a counter has no place for it.
func (a *Limiter) Full(id task.ID, counter string) bool {
	e := a.entries[id]
	return e != nil && e.phase == waiting && slices.ContainsFunc(e.line.slots, func(s slot) bool { return s.name == counter && s.full() })
}

// oldest returns the tasks to stop that have not been asked to: of the holders and the tasks that
// are to replace them, only the newest stay.
func (c *counter) oldest() (gone []Refusal) {
	all := slices.Collect(maps.Values(c.holders))
	room := 0
	var newest task.ID
	for e, most := range c.replacing {
		room = max(room, most)
		all = append(all, e)
		newest = max(newest, e.id)
	}
	slices.SortFunc(all, func(x, y *entry) int { return cmp.Or(cmp.Compare(x.born, y.born), cmp.Compare(x.id, y.id)) })
	for _, e := range all[:max(len(all)-room, 0)] {
		if e.asked {
			continue
		}
		gone = append(gone, Refusal{Task: e.id, Counter: c.name, By: newest})
	}
	return gone
}

// Undo reverts a decision that was not recorded, because the decision of another scheduler was.
func (a *Limiter) Undo(d *Decision) {
	for _, g := range d.Grants {
		e := a.entries[g.Task]
		if e == nil || !e.open || e.granted != g.Turn {
			continue // another scheduler has admitted it
		}
		e.open, e.sure = false, false
		if e.phase == holding && e.held && e.turn == g.Turn {
			a.leave(e)
			a.wait(e)
		}
	}
	for name, was := range d.was {
		// A bucket set from outside meanwhile is the truth. It may even be this decision, if the
		// answer to its write was lost.
		if a.counter(name).told == was.told {
			a.Bucket(name, was.bucket)
		}
	}
}

// Confirm records that a decision is in the log: its first fact at a sequence, and the ends of what
// it stops directly before that; 0 if that is not known.
func (a *Limiter) Confirm(d *Decision, first uint64) {
	for _, g := range d.Grants {
		if e := a.entries[g.Task]; e != nil && e.granted == g.Turn {
			e.open = false
		}
	}
	stops := slices.Concat(d.Refused, d.Replaced)
	for i, r := range stops {
		at := first
		if first > 0 {
			at -= uint64(len(stops) - i)
		}
		a.Stopped(r.Task, at)
	}
}

// Stopped records that the log refuses a task, or asks it to stop, at a sequence: it may not be
// admitted now. Its end comes later. Older states of it may come even after this, ends and new lives
// too, and change nothing then: what the log tells in another order has the same result.
func (a *Limiter) Stopped(id task.ID, at uint64) {
	if at > 0 {
		if at <= a.told {
			return // and what followed
		}
		a.stopped[id] = at
	}
	e := a.entries[id]
	if e == nil {
		return
	}
	if e.asked = true; e.phase != holding {
		a.leave(e)
	}
}

// Repeat schedules new decisions about refusals that could not be carried out.
func (a *Limiter) Repeat(refusals []Refusal) {
	for _, r := range refusals {
		e := a.entries[r.Task]
		if e == nil {
			continue
		}
		if e.asked = false; e.phase == waiting {
			a.fresh[e.id] = struct{}{}
		}
		for _, s := range e.line.slots {
			a.refresh(s.counter)
		}
	}
}
