package task

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"
	"strings"
	"time"
)

// Limiter decides which tasks their limits admit. It holds what is under way and what
// waits, a few words each, and is told of every change; to decide costs as much as what it
// decides, however many wait behind. It reads no clock and is for one goroutine.
//
// A line is all that waits for the same counters, by priority and then by age. The first of
// a line goes when all its counters have a place; until then the line rests at the first
// that has none, and holds up nobody in another line.
type Limiter struct {
	entries  map[ID]*entry
	counters map[string]*counter
	lines    map[lineKey]*line
	ready    lineHeap    // lines whose first is to be looked at
	due      entryHeap   // tasks that wait for their time, the soonest first
	opening  counterHeap // rates that are shut and wanted, the first to open first
	// fresh are tasks that came with an on_limit other than wait and were not looked at.
	fresh map[ID]struct{}
	// unoffered are those that are admitted and wait for their offer.
	unoffered map[ID]*entry
	crowd     int // how many wait for a place that others have
}

// NewLimiter returns one that knows of nothing.
func NewLimiter() *Limiter {
	return &Limiter{
		entries: map[ID]*entry{}, counters: map[string]*counter{}, lines: map[lineKey]*line{}, due: entryHeap{isDue: true},
		fresh: map[ID]struct{}{}, unoffered: map[ID]*entry{},
	}
}

// phase is where a task stands before its limits.
type phase uint8

const (
	sleeping phase = iota // its time has not come
	waiting               // in its line
	holding               // it has a place in each counter
)

// entry is a task as admission needs it.
type entry struct {
	id       ID
	phase    phase
	asked    bool // it has been asked to stop, or refused
	first    bool // it waits for its first attempt
	held     bool // it is not offered
	open     bool // its grant is decided and not recorded yet
	priority int8
	index    int // in the heap where it waits
	seq      uint64
	turn     uint64
	granted  uint64 // the turn for which it was admitted, if grantedOK
	sure     bool   // granted is set
	born     int64
	due      time.Time
	onLimit  string
	line     *line
}

// before is the order of a line: by priority, then by age.
func (e *entry) before(f *entry) bool {
	if e.priority != f.priority {
		return e.priority > f.priority
	}
	if e.born != f.born {
		return e.born < f.born
	}
	return e.id < f.id
}

// lineKey names the counters of a line; max and rate are part of it, for they may differ
// between tasks of the same counter.
type lineKey struct {
	slots string
	max   int
	rate  string
	how   Rate
}

type line struct {
	key     lineKey
	slots   *counter // nil for none
	rate    *counter // nil for none
	waiting entryHeap
	rests   *counter // where it is parked; nil if it is not
	index   int      // in the heap where it stands: ready or rests.parked
	inReady bool
	members int // entries that point to it
}

func (l *line) first() *entry { return l.waiting.list[0] }

// counter is one limit.
type counter struct {
	name    string
	holders map[ID]*entry
	bucket  Bucket
	how     Rate // as the latest task had it
	max     int
	parked  lineHeap
	waits   int
	index   int // in opening, -1 if it is not there
	opens   time.Time
	lines   int
	// replacing are tasks of cancel_old that wait here.
	replacing map[ID]*entry
}

// Put takes over what has become of a task. What is not limited, or held by something else
// besides its limits, is none of its business; neither is what it knows already.
func (a *Limiter) Put(t *Task) {
	e := a.entries[t.ID]
	if e != nil && t.Seq <= e.seq {
		return
	}
	held := t.Admissible()
	if !t.Spec.Limited() || !held && t.State != Pending && !t.Live() {
		if e != nil {
			a.remove(e)
		}
		return
	}
	if e == nil {
		counters, err := t.Counters()
		if err != nil {
			return // such a birth is refused; one that was written past that is nobody's to admit
		}
		e = &entry{id: ID(strings.Clone(string(t.ID))), line: a.lineOf(counters), born: t.SubmittedAt.UnixMicro(), onLimit: t.Spec.Concurrency.OnLimit, index: -1}
		e.line.members++
		a.entries[t.ID] = e
	}
	holds := t.Holding(e.granted, e.sure)
	e.seq = t.Seq
	if e.phase == holding && holds {
		e.turn, e.held = t.Turn, held
		e.asked = e.asked || t.State == Cancelling
		if !held {
			delete(a.unoffered, e.id)
		}
		return
	}
	a.leave(e)
	e.turn, e.due, e.held, e.first = t.Turn, t.Due, held, t.Attempt == 0
	e.priority, e.asked = int8(t.Route.Priority()), t.State == Cancelling
	if holds {
		a.hold(e)
	} else {
		a.wait(e)
	}
}

// Granted takes over that a task was admitted for a turn. A grant for another than its
// present turn means nothing any more.
func (a *Limiter) Granted(id ID, turn uint64) {
	e := a.entries[id]
	if e == nil {
		return
	}
	e.granted, e.sure = turn, true
	if e.turn == turn {
		e.open = false
	}
	if e.phase != holding && e.turn == turn {
		a.leave(e)
		a.hold(e)
	}
}

// Bucket takes over how a rate stands.
func (a *Limiter) Bucket(name string, b Bucket) {
	c := a.counter(name)
	c.bucket = b
	a.wake(c)
}

// Buckets are all that are not as good as untouched now.
func (a *Limiter) Buckets(now time.Time) map[string]time.Time {
	left := map[string]time.Time{}
	for name, c := range a.counters {
		if time.Time(c.bucket).After(now) {
			left[name] = time.Time(c.bucket)
		}
	}
	return left
}

// Pause keeps the rate of a task shut until a time, because it asked for that. The second
// result is false if it is, or has none.
func (a *Limiter) Pause(w *Work, until time.Time) (name string, b Bucket, changed bool) {
	counters, err := w.Counters()
	if err != nil || len(counters) == 0 || counters[len(counters)-1].Rate.Limit == 0 {
		return "", Bucket{}, false
	}
	of := counters[len(counters)-1]
	was := a.counter(of.Name).bucket
	if !until.After(was.Opens(of.Rate)) {
		return "", Bucket{}, false
	}
	return of.Name, was.Pause(of.Rate, until), true
}

func (a *Limiter) counter(name string) *counter {
	c := a.counters[name]
	if c == nil {
		c = &counter{name: name, holders: map[ID]*entry{}, index: -1}
		a.counters[name] = c
	}
	return c
}

func (a *Limiter) lineOf(counters []Counter) *line {
	var key lineKey
	for _, c := range counters {
		if c.Max > 0 {
			key.slots, key.max = c.Name, c.Max
		} else {
			key.rate, key.how = c.Name, c.Rate
		}
	}
	if l := a.lines[key]; l != nil {
		return l
	}
	l := &line{key: key, index: -1}
	if key.slots != "" {
		l.slots = a.counter(key.slots)
		l.slots.max = key.max
		l.slots.lines++
	}
	if key.rate != "" {
		l.rate = a.counter(key.rate)
		l.rate.how = key.how
		l.rate.lines++
	}
	a.lines[key] = l
	return l
}

// wait puts an entry that is nowhere into its line, or among those whose time has not come.
func (a *Limiter) wait(e *entry) {
	if !e.due.IsZero() {
		e.phase = sleeping
		heap.Push(&a.due, e)
		return
	}
	a.queue(e)
}

func (a *Limiter) queue(e *entry) {
	e.phase = waiting
	l := e.line
	heap.Push(&l.waiting, e)
	for _, c := range l.counters() {
		c.waits++
	}
	if l.slots != nil {
		a.crowd++
	}
	if l.slots != nil && e.first {
		switch e.onLimit {
		case LimitSkip, LimitFail:
			a.fresh[e.id] = struct{}{}
		case LimitCancelOld:
			if l.slots.replacing == nil {
				l.slots.replacing = map[ID]*entry{}
			}
			l.slots.replacing[e.id] = e
			a.fresh[e.id] = struct{}{}
		}
	}
	a.place(l)
}

func (l *line) counters() []*counter {
	all := make([]*counter, 0, 2)
	if l.slots != nil {
		all = append(all, l.slots)
	}
	if l.rate != nil {
		all = append(all, l.rate)
	}
	return all
}

// place puts a line where it belongs after its first has changed.
func (a *Limiter) place(l *line) {
	switch {
	case len(l.waiting.list) == 0:
		a.unplace(l)
	case l.rests != nil:
		heap.Fix(&l.rests.parked, l.index)
	case l.inReady:
		heap.Fix(&a.ready, l.index)
	default:
		l.inReady = true
		heap.Push(&a.ready, l)
	}
}

func (a *Limiter) unplace(l *line) {
	switch {
	case l.rests != nil:
		heap.Remove(&l.rests.parked, l.index)
		l.rests = nil
	case l.inReady:
		heap.Remove(&a.ready, l.index)
		l.inReady = false
		// It may have been the one that was told of a place: somebody else has to be.
		for _, c := range l.counters() {
			if len(c.parked.list) > 0 {
				a.rouse(c)
			}
		}
	}
}

func (a *Limiter) hold(e *entry) {
	e.phase = holding
	if e.held {
		a.unoffered[e.id] = e
	}
	if s := e.line.slots; s != nil {
		s.holders[e.id] = e
	}
}

// leave takes an entry from where it is.
func (a *Limiter) leave(e *entry) {
	delete(a.fresh, e.id)
	switch e.phase {
	case sleeping:
		if e.index >= 0 {
			heap.Remove(&a.due, e.index)
		}
	case waiting:
		l := e.line
		heap.Remove(&l.waiting, e.index)
		for _, c := range l.counters() {
			c.waits--
		}
		if l.slots != nil {
			a.crowd--
		}
		if l.slots != nil {
			delete(l.slots.replacing, e.id)
		}
		a.place(l)
	case holding:
		delete(a.unoffered, e.id)
		if s := e.line.slots; s != nil {
			delete(s.holders, e.id)
			a.wake(s)
		}
	}
	e.phase, e.index = sleeping, -1
}

func (a *Limiter) remove(e *entry) {
	a.leave(e)
	delete(a.entries, e.id)
	l := e.line
	if l.members--; l.members > 0 {
		return
	}
	a.unplace(l)
	delete(a.lines, l.key)
	for _, c := range l.counters() {
		if c.lines--; c.lines == 0 && time.Time(c.bucket).IsZero() {
			a.forget(c)
		}
	}
}

func (a *Limiter) forget(c *counter) {
	if c.index >= 0 {
		heap.Remove(&a.opening, c.index)
	}
	delete(a.counters, c.name)
}

// wake has the best of the lines that rest at a counter looked at again.
func (a *Limiter) wake(c *counter) {
	if c.index >= 0 {
		heap.Remove(&a.opening, c.index)
	}
	if len(c.parked.list) > 0 {
		a.rouse(c)
	}
}

func (a *Limiter) rouse(c *counter) {
	l := c.parked.list[0]
	heap.Pop(&c.parked)
	l.rests, l.inReady = nil, true
	heap.Push(&a.ready, l)
}

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

// Unoffered returns those that are admitted and of which no offer is known, in order.
func (a *Limiter) Unoffered() []Grant {
	all := make([]Grant, 0, len(a.unoffered))
	for id, e := range a.unoffered {
		all = append(all, Grant{Task: id, Turn: e.turn})
	}
	slices.SortFunc(all, func(x, y Grant) int { return cmp.Compare(x.Task, y.Task) })
	return all
}

// Awaits tells whether the task is admitted for this turn and no offer of it is known.
func (a *Limiter) Awaits(id ID, turn uint64) bool {
	e := a.unoffered[id]
	return e != nil && e.turn == turn
}

// Waiting is how many wait for a place that one of those under way has.
func (a *Limiter) Waiting() int { return a.crowd }

// Len is how many tasks it knows of.
func (a *Limiter) Len() int { return len(a.entries) }

// Prune forgets rates that nobody needs and that are as good as untouched now.
func (a *Limiter) Prune(now time.Time) {
	for _, c := range a.counters {
		if c.lines == 0 && !time.Time(c.bucket).After(now) {
			a.forget(c)
		}
	}
}

// Heaps of the above.

type entryHeap struct {
	list  []*entry
	isDue bool
}

func (h *entryHeap) Len() int { return len(h.list) }
func (h *entryHeap) Less(i, j int) bool {
	x, y := h.list[i], h.list[j]
	if h.isDue && !x.due.Equal(y.due) {
		return x.due.Before(y.due)
	}
	return x.before(y)
}
func (h *entryHeap) Swap(i, j int) {
	h.list[i], h.list[j] = h.list[j], h.list[i]
	h.list[i].index, h.list[j].index = i, j
}
func (h *entryHeap) Push(x any) {
	e := x.(*entry)
	e.index = len(h.list)
	h.list = append(h.list, e)
}
func (h *entryHeap) Pop() any {
	n := len(h.list) - 1
	e := h.list[n]
	h.list[n] = nil
	h.list = h.list[:n]
	e.index = -1
	return e
}

type lineHeap struct{ list []*line }

func (h *lineHeap) Len() int           { return len(h.list) }
func (h *lineHeap) Less(i, j int) bool { return h.list[i].first().before(h.list[j].first()) }
func (h *lineHeap) Swap(i, j int) {
	h.list[i], h.list[j] = h.list[j], h.list[i]
	h.list[i].index, h.list[j].index = i, j
}
func (h *lineHeap) Push(x any) {
	l := x.(*line)
	l.index = len(h.list)
	h.list = append(h.list, l)
}
func (h *lineHeap) Pop() any {
	n := len(h.list) - 1
	l := h.list[n]
	h.list[n] = nil
	h.list = h.list[:n]
	l.index = -1
	return l
}

type counterHeap struct{ list []*counter }

func (h *counterHeap) Len() int           { return len(h.list) }
func (h *counterHeap) Less(i, j int) bool { return h.list[i].opens.Before(h.list[j].opens) }
func (h *counterHeap) Swap(i, j int) {
	h.list[i], h.list[j] = h.list[j], h.list[i]
	h.list[i].index, h.list[j].index = i, j
}
func (h *counterHeap) Push(x any) {
	c := x.(*counter)
	c.index = len(h.list)
	h.list = append(h.list, c)
}
func (h *counterHeap) Pop() any {
	n := len(h.list) - 1
	c := h.list[n]
	h.list[n] = nil
	h.list = h.list[:n]
	c.index = -1
	return c
}
