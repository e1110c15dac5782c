package task

import (
	"cmp"
	"container/heap"
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
	ready    heapOf[*line]    // lines whose first is to be looked at
	due      heapOf[*entry]   // tasks that wait for their time, the soonest first
	opening  heapOf[*counter] // rates that are shut and wanted, the first to open first
	// fresh are tasks that came with an on_limit other than wait and were not looked at.
	fresh map[ID]struct{}
	// unoffered are those that are admitted and wait for their offer.
	unoffered map[ID]*entry
	crowd     int // how many wait for a place that others have
}

// NewLimiter returns one that knows of nothing.
func NewLimiter() *Limiter {
	return &Limiter{
		entries: map[ID]*entry{}, counters: map[string]*counter{}, lines: map[lineKey]*line{},
		ready: heapOf[*line]{before: firstLine}, due: heapOf[*entry]{before: dueFirst}, opening: heapOf[*counter]{before: opensFirst},
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
	waiting heapOf[*entry]
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
	parked  heapOf[*line]
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
		c = &counter{name: name, holders: map[ID]*entry{}, parked: heapOf[*line]{before: firstLine}, index: -1}
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
	l := &line{key: key, waiting: heapOf[*entry]{before: firstEntry}, index: -1}
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
