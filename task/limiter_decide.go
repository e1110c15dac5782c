package task

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"
	"time"
)

// Decision is what is to be done about limits.
type Decision struct {
	Grants []Grant
	// Rates are the buckets from which the grants take, as they are then.
	Rates map[string]time.Time
	// Refused end because their limit has no place for them and they would not wait.
	Refused []Refusal
	// Replaced are asked to stop so that newer ones get their place.
	Replaced []Refusal
	// Next is when to look again if nothing happens before; zero for never.
	Next time.Time

	was map[string]Bucket
}

// Refusal names a task and the counter that has no place for it.
type Refusal struct {
	Task    ID
	Counter string
	// By is the newer task for which it has to make place; "" if there is none.
	By ID
}

// Empty tells whether there is nothing to be done now.
func (d *Decision) Empty() bool { return len(d.Grants)+len(d.Refused)+len(d.Replaced) == 0 }

// Decide returns what follows now, at most so many grants, and counts on it: [Limiter.Undo]
// takes back what was not recorded.
func (a *Limiter) Decide(now time.Time, most int) Decision {
	d := Decision{Rates: map[string]time.Time{}, was: map[string]Bucket{}}
	for len(a.due.list) > 0 && !a.due.list[0].due.After(now) {
		e := a.due.list[0]
		heap.Pop(&a.due)
		e.index, e.due = -1, time.Time{}
		a.queue(e)
	}
	for len(a.opening.list) > 0 && !a.opening.list[0].opens.After(now) {
		a.wake(a.opening.list[0])
	}
	for len(a.ready.list) > 0 && len(d.Grants) < most {
		a.look(&d, now)
	}
	a.refuse(&d)
	if len(a.ready.list) > 0 {
		d.Next = now
		return d
	}
	if len(a.due.list) > 0 {
		d.Next = a.due.list[0].due
	}
	if len(a.opening.list) > 0 && (d.Next.IsZero() || a.opening.list[0].opens.Before(d.Next)) {
		d.Next = a.opening.list[0].opens
	}
	return d
}

// look admits the first of the best line, or lets the line rest.
func (a *Limiter) look(d *Decision, now time.Time) {
	l := a.ready.list[0]
	heap.Pop(&a.ready)
	l.inReady = false
	e := l.first()
	if s := l.slots; s != nil && len(s.holders) >= l.key.max {
		a.park(l, s)
		// What its rate would admit may do for somebody in another line.
		if r := l.rate; r != nil && len(r.parked.list) > 0 && !r.bucket.Opens(r.parked.list[0].key.how).After(now) {
			a.rouse(r)
		}
		return
	}
	if r := l.rate; r != nil {
		if opens := r.bucket.Opens(l.key.how); opens.After(now) {
			a.park(l, r)
			if r.index < 0 {
				r.opens = opens
				heap.Push(&a.opening, r)
			} else if opens.Before(r.opens) {
				r.opens = opens
				heap.Fix(&a.opening, r.index)
			}
			// Its place among the slots may do for somebody in another line.
			if s := l.slots; s != nil && len(s.parked.list) > 0 {
				a.rouse(s)
			}
			return
		}
	}
	g := Grant{Task: e.id, Turn: e.turn}
	for _, c := range l.counters() {
		g.Limits = append(g.Limits, c.name)
	}
	if r := l.rate; r != nil {
		if _, known := d.was[r.name]; !known {
			d.was[r.name] = r.bucket
		}
		r.bucket = r.bucket.Take(l.key.how, now)
		d.Rates[r.name] = time.Time(r.bucket)
	}
	d.Grants = append(d.Grants, g)
	a.leave(e)
	e.granted, e.sure, e.open = e.turn, true, true
	a.hold(e)
	// There may be place for one more: the lines that rest there do not know.
	for _, c := range l.counters() {
		if len(c.parked.list) > 0 && (c != l.slots || len(c.holders) < c.parked.list[0].key.max) {
			a.rouse(c)
		}
	}
}

func (a *Limiter) park(l *line, at *counter) {
	l.rests = at
	heap.Push(&at.parked, l)
}

// refuse decides about those that do not simply wait.
func (a *Limiter) refuse(d *Decision) {
	replacing := map[*counter]struct{}{}
	for _, id := range sortedIDs(a.fresh) {
		e := a.entries[id]
		if e.line.inReady {
			continue // not looked at yet
		}
		s := e.line.slots
		if len(s.holders) < e.line.key.max {
			continue // only its rate keeps it waiting
		}
		delete(a.fresh, id)
		if e.onLimit == LimitCancelOld {
			replacing[s] = struct{}{}
			continue
		}
		d.Refused = append(d.Refused, Refusal{Task: id, Counter: s.name})
	}
	for s := range replacing {
		d.Replaced = append(d.Replaced, s.replace()...)
	}
	slices.SortFunc(d.Replaced, func(x, y Refusal) int { return cmp.Compare(x.Task, y.Task) })
}

// replace finds the oldest that have to go: of those that are under way and those that are to
// replace them, only the newest stay.
func (s *counter) replace() []Refusal {
	all := slices.Collect(maps.Values(s.holders))
	room := 0
	var newest ID
	for _, e := range s.replacing {
		room = e.line.key.max
		all = append(all, e)
		newest = max(newest, e.id)
	}
	slices.SortFunc(all, func(x, y *entry) int { return cmp.Or(cmp.Compare(x.born, y.born), cmp.Compare(x.id, y.id)) })
	var gone []Refusal
	for _, e := range all[:max(len(all)-room, 0)] {
		if !e.asked {
			e.asked = true
			gone = append(gone, Refusal{Task: e.id, Counter: s.name, By: newest})
		}
	}
	return gone
}

func sortedIDs(of map[ID]struct{}) []ID {
	ids := make([]ID, 0, len(of))
	for id := range of {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Undo takes a decision back: it was not recorded, because somebody else's was.
func (a *Limiter) Undo(d *Decision) {
	for _, g := range d.Grants {
		e := a.entries[g.Task]
		if e == nil || !e.open || e.granted != g.Turn {
			continue // somebody else has admitted it
		}
		e.open, e.sure = false, false
		if e.phase == holding && e.held && e.turn == g.Turn {
			a.leave(e)
			a.wait(e)
		}
	}
	for name, b := range d.was {
		if time.Time(a.counter(name).bucket).Equal(d.Rates[name]) {
			a.Bucket(name, b)
		}
	}
}

// Confirm takes over that a decision was recorded.
func (a *Limiter) Confirm(d *Decision) {
	for _, g := range d.Grants {
		if e := a.entries[g.Task]; e != nil && e.granted == g.Turn {
			e.open = false
		}
	}
}

// Repeat has refusals decided again that could not be carried out.
func (a *Limiter) Repeat(refusals []Refusal) {
	for _, r := range refusals {
		e := a.entries[r.Task]
		if e == nil {
			continue
		}
		if e.asked = false; e.phase == waiting {
			a.fresh[e.id] = struct{}{}
		}
		if s := e.line.slots; s != nil {
			for id := range s.replacing {
				a.fresh[id] = struct{}{}
			}
		}
	}
}
