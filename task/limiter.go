package task

import (
	"cmp"
	"container/heap"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limiter decides which tasks their limits admit. It holds what is under way and what
// waits, a few words each, and is told of every change; to decide costs as much as what it
// decides, however many wait behind. It reads no clock and is for one goroutine.
//
// A line is all that waits for the same counters, by priority and then by age. The first of
// a line goes when all its counters have a place, and takes all of them at once; until then
// the line rests at the first that has none, takes nothing, and holds up nobody in another
// line. So tasks that need several cannot wait for each other in a circle.
type Limiter struct {
	entries  map[ID]*entry
	counters map[string]*counter
	lines    map[string]*line
	ready    heapOf[*line]    // lines whose first is to be looked at
	due      heapOf[*entry]   // tasks that wait for their time, the soonest first
	opening  heapOf[*counter] // rates and budgets that are shut and wanted, the first to open first
	// fresh are tasks for which a bound may have no place and that would not wait for it.
	fresh map[ID]struct{}
	// unoffered are those that are admitted and wait for their offer.
	unoffered map[ID]*entry
	// queues are those that have a line, or of which somebody has said something.
	queues map[string]*Queue
	scopes map[Scope]*scope
	out    int       // scopes of which an admission is on its way
	crowd  int       // how many wait for a place that others have
	latest time.Time // for which a task has waited
}

// NewLimiter returns one that knows of nothing.
func NewLimiter() *Limiter {
	return &Limiter{
		entries: map[ID]*entry{}, counters: map[string]*counter{}, lines: map[string]*line{},
		ready: heapOf[*line]{before: firstLine}, due: heapOf[*entry]{before: dueFirst}, opening: heapOf[*counter]{before: opensFirst},
		fresh: map[ID]struct{}{}, unoffered: map[ID]*entry{}, queues: map[string]*Queue{}, scopes: map[Scope]*scope{},
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
	live     bool // it has started
	pledged  bool // it counts as one that will start
	priority int8
	index    int // in the heap where it waits
	seq      uint64
	turn     uint64
	granted  uint64 // the turn for which it was admitted, if grantedOK
	sure     bool   // granted is set
	rated    uint64 // of that grant
	born     int64
	due      time.Time
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

// line has the bounds of its tasks with it, for they may differ between tasks of the same counter.
type line struct {
	key     string
	slots   []slot
	funds   []fund
	rates   []tap
	waiting heapOf[*entry]
	scopes  []*scope // on whose chains its admissions lie, in order
	rests   *row     // where it is parked, the gate of a scope included; nil if it is not
	head    *entry   // its first when it was put there
	index   int      // in the heap where it stands: ready or rests.lines
	inReady bool
	picky   bool // not all of its slots have tasks wait
	members int  // entries that point to it
	queue   *Queue
	route   string // where its tasks are offered, but for their priority
	rated   bool   // the last of rates is that of the queue
	// offered holds those that the rate of the queue has admitted and that have not started; nil without one.
	offered *counter
}

// slot is a bound on concurrency, as the tasks of a line have it.
type slot struct {
	*counter
	max     int
	onLimit string
}

func (s slot) full() bool { return len(s.holders) >= s.max }

// tap is a rate, as the tasks of a line have it.
type tap struct {
	*counter
	how Rate
}

func (t tap) shut(now time.Time) bool { return t.bucket.Opens(t.how).After(now) }

// fund is a budget, as the tasks of a line have it.
type fund struct {
	*counter
	how Allowance
}

func (f fund) spent(now time.Time) bool { return f.how.Spent(f.tally.At(f.period, now), f.underway) }

func (l *line) first() *entry { return l.waiting.list[0] }

// counter is one limit.
type counter struct {
	name    string
	scope   *scope
	holders map[ID]*entry
	bucket  Bucket
	told    int  // how often it was told how the bucket stands
	how     Rate // as the latest task had it
	max     int
	// budget says that it is one, of which the latest task had allows.
	budget   bool
	period   Period
	allows   Allowance
	tally    Tally
	underway Underway
	rows     []*row
	one      row // the first of rows: few counters have more
	waits    int
	index    int // in opening, -1 if it is not there
	opens    time.Time
	lines    int
	kept     bool // it is the present rate of a queue
	// replacing are tasks of cancel_old that wait here, and what each of them allows.
	replacing map[*entry]int
}

// row are lines that rest at a counter which bounds all of them alike: if it has a place for one of them, then for the
// first.
type row struct {
	at     *counter
	max    int
	allows Allowance
	how    Rate
	lines  heapOf[*line]
}

// row is where a line rests at the counter.
func (c *counter) row(l *line) *row {
	r := row{at: c, lines: heapOf[*line]{before: firstLine}}
	for _, s := range l.slots {
		if s.counter == c {
			r.max = s.max
		}
	}
	for _, f := range l.funds {
		if f.counter == c {
			r.allows = f.how
		}
	}
	for _, t := range l.rates {
		if t.counter == c {
			r.how = t.how
		}
	}
	for _, same := range c.rows {
		if same.max == r.max && same.allows == r.allows && same.how == r.how {
			return same
		}
	}
	into := &c.one
	if len(c.rows) > 0 {
		into = &row{}
	}
	*into = r
	c.rows = append(c.rows, into)
	return into
}

// Stand is a task as its limits know it.
type Stand struct {
	ID               ID
	Seq, Turn, Rated uint64
	Born, Due        time.Time
	State            State
	Route            Route
	// Queue is that whose rate holds for the task.
	Queue string
	// Limited is as [Task.Limited] has it, Held as [Task.Admissible], and First tells whether it has not been admitted before.
	Limited, Held, First bool
}

// StandOf is how a task stands before its limits.
func StandOf(t *Task) Stand {
	return Stand{
		ID: t.ID, Seq: t.Seq, Turn: t.Turn, Rated: t.Rated, Born: t.SubmittedAt, Due: t.Due, State: t.State, Route: t.Route, Queue: t.RateQueue(),
		Limited: t.Limited(), Held: t.Admissible(),
		First: t.Attempt == 0 && t.State == Held && !t.Throttled, // what was put back, or postponed, was admitted before
	}
}

// Put takes over what has become of a task. What is not limited, or held by something else
// besides its limits, is none of its business; neither is what it knows already.
func (a *Limiter) Put(t *Task) { a.Stands(StandOf(t), t.Counters) }

// Stands is [Limiter.Put] for who does not have the task: counters are those of [Work.Counters].
func (a *Limiter) Stands(t Stand, counters func() ([]Counter, error)) {
	e := a.entries[t.ID]
	if e != nil && t.Seq <= e.seq {
		return
	}
	live := t.State == Running || t.State == Cancelling
	if !t.Limited || !t.Held && t.State != Pending && !live {
		if e != nil {
			a.remove(e)
		}
		return
	}
	if e != nil && e.line.route != t.Route.Queue() { // it was moved
		a.remove(e)
		e = nil
	}
	if e == nil {
		counters, err := counters()
		if err != nil {
			return // such a birth is refused; one that was written past that is nobody's to admit
		}
		e = &entry{id: ID(strings.Clone(string(t.ID))), line: a.lineOf(t.Queue, t.Route.Queue(), counters), born: t.Born.UnixMicro(), index: -1}
		e.line.members++
		a.entries[t.ID] = e
	}
	holds := holds(t.State, t.Held, t.Turn, e.granted, e.sure)
	e.seq = t.Seq
	if e.phase == holding && holds {
		e.turn, e.held = t.Turn, t.Held
		e.asked = e.asked || t.State == Cancelling
		if !t.Held {
			delete(a.unoffered, e.id)
		}
		if t.State == Pending {
			e.rated = t.Rated
		}
		if e.live = live; e.live {
			a.started(e)
		} else { // it may have waited meanwhile, of which nothing was told
			a.offered(e)
		}
		a.pledge(e, !e.live)
		return
	}
	a.leave(e)
	if e.live = live; t.State == Pending {
		e.rated = t.Rated
	}
	e.turn, e.due, e.held, e.first = t.Turn, t.Due, t.Held, t.First
	e.priority, e.asked = int8(t.Route.Priority()), t.State == Cancelling
	if holds {
		a.hold(e)
	} else {
		a.wait(e)
	}
}

// Granted takes over that a task was admitted for a turn. A grant for another than its
// present turn means nothing any more.
func (a *Limiter) Granted(g Grant) {
	e := a.entries[g.Task]
	if e == nil {
		return
	}
	e.granted, e.sure = g.Turn, true
	if g.Turn < e.turn {
		return
	}
	e.rated = g.Rated
	if e.turn == g.Turn {
		e.open = false
	}
	switch {
	case e.phase == holding: // by what was admitted before; that it waited since was not told
		a.offered(e)
	case e.turn == g.Turn:
		a.leave(e)
		a.hold(e)
	}
}

// Bucket takes over how a rate stands.
func (a *Limiter) Bucket(name string, b Bucket) {
	c := a.counter(name)
	c.bucket = b
	c.told++
	a.wake(c)
}

// UsedUntil is up to when a bucket is used, as far as is known; zero for one that nothing stands under.
func (a *Limiter) UsedUntil(name string) time.Time {
	if c := a.counters[name]; c != nil {
		return time.Time(c.bucket)
	}
	return time.Time{}
}

// Spend is as [Tallies.Spend]. It must come before [Limiter.Put] of the same fact, or of what follows that: until then the task counts as
// one that has not started, or runs.
func (a *Limiter) Spend(counters []Counter, s Shift) {
	for _, of := range counters {
		if p, ok := PeriodOf(of.Name); ok {
			c := a.counter(of.Name)
			c.tally = c.tally.spend(p, s)
			a.wake(c) // it may be known now how long such tasks run
		}
	}
}

// Used is what is used up of rates and budgets, by counter: up to when a bucket is, and the tally of a budget.
type Used struct {
	Rates   map[string]time.Time
	Budgets Tallies
}

// Used takes over what is used up.
func (a *Limiter) Used(u Used) {
	for name, used := range u.Rates {
		a.Bucket(name, Bucket(used))
	}
	for name, y := range u.Budgets {
		c := a.counter(name)
		c.tally = y
		a.wake(c)
	}
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

// Pause returns the buckets of a task's rates that are to be shut until a time, because it
// asked for that, and are not yet.
func (a *Limiter) Pause(w *Work, until time.Time) map[string]Bucket {
	counters, err := w.Counters()
	if err != nil {
		return nil
	}
	if q := a.queues[w.RateQueue()]; q != nil && q.Rate.Limit > 0 {
		counters = append(counters, Counter{Name: RateOf(q).Counter(), Rate: q.Rate})
	}
	shut := map[string]Bucket{}
	for _, of := range counters {
		if of.Rate.Limit == 0 {
			continue
		}
		if was := a.counter(of.Name).bucket; until.After(was.Opens(of.Rate)) {
			shut[of.Name] = was.Pause(of.Rate, until)
		}
	}
	return shut
}

func (a *Limiter) counter(name string) *counter {
	c := a.counters[name]
	if c == nil {
		name = strings.Clone(name)
		c = &counter{name: name, scope: a.scope(ScopeOf(name)), holders: map[ID]*entry{}, index: -1}
		c.period, c.budget = PeriodOf(name)
		c.scope.uses++
		a.counters[name] = c
	}
	return c
}

func (a *Limiter) lineOf(queue, route string, counters []Counter) *line {
	key := lineKey(queue, route, counters)
	if l := a.lines[key]; l != nil {
		return l
	}
	l := &line{key: key, queue: a.home(queue), route: strings.Clone(route), waiting: heapOf[*entry]{before: firstEntry}, index: -1}
	for _, of := range counters {
		c := a.counter(of.Name)
		c.lines++
		switch {
		case of.Max > 0:
			c.max = of.Max
			l.slots = append(l.slots, slot{c, of.Max, of.OnLimit})
			l.picky = l.picky || of.OnLimit != "" && of.OnLimit != LimitWait
		case c.budget:
			c.allows = of.Allows
			l.funds = append(l.funds, fund{c, of.Allows})
		default:
			c.how = of.Rate
			l.rates = append(l.rates, tap{c, of.Rate})
		}
	}
	a.tap(l)
	a.enter(l)
	a.lines[key] = l
	return l
}

// lineKey says of which queue the tasks of a line are, where they are offered, which counters the line has
// besides the rate of the queue, and how they are bound by each.
func lineKey(queue, route string, counters []Counter) string {
	b := make([]byte, 0, 64)
	b = append(append(append(append(b, queue...), 0), route...), 0)
	for _, c := range counters {
		b = append(append(b, c.Name...), 0)
		b = strconv.AppendInt(b, int64(c.Max), 10)
		b = append(append(b, c.OnLimit...), 0)
		if c.Allows != (Allowance{}) {
			b = fmt.Appendf(b, "%d/%d/%d", c.Allows.Starts, c.Allows.Run, c.Allows.Reserve)
			b = append(b, 0)
		}
		if c.Rate.Limit > 0 {
			b = fmt.Appendf(b, "%d/%d/%d", c.Rate.Limit, c.Rate.Per, c.Rate.Burst)
			b = append(b, 0)
		}
	}
	return string(b)
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
	for c := range l.counters() {
		c.waits++
	}
	if len(l.slots) > 0 {
		a.crowd++
	}
	if l.picky && e.first {
		a.fresh[e.id] = struct{}{}
		for _, s := range l.slots {
			if s.onLimit == LimitCancelOld {
				if s.replacing == nil {
					s.replacing = map[*entry]int{}
				}
				s.replacing[e] = s.max
			}
		}
	}
	a.place(l)
}

// counters are all of a line, those on concurrency first, and then budgets.
func (l *line) counters() iter.Seq[*counter] {
	return func(yield func(*counter) bool) {
		for i := range l.slots {
			if !yield(l.slots[i].counter) {
				return
			}
		}
		for i := range l.funds {
			if !yield(l.funds[i].counter) {
				return
			}
		}
		for i := range l.rates {
			if !yield(l.rates[i].counter) {
				return
			}
		}
		if l.offered != nil {
			yield(l.offered)
		}
	}
}

// place puts a line where it belongs after one of its tasks has come or gone. If its first has changed it is looked at:
// it may go before those that were told of a place.
func (a *Limiter) place(l *line) {
	switch {
	case len(l.waiting.list) == 0:
		a.unplace(l)
	case l.inReady:
		was := l.head
		l.head = l.first()
		heap.Fix(&a.ready, l.index)
		if was.before(l.head) {
			a.yield(l)
		}
	case l.rests != nil && l.first() == l.head:
	default:
		if l.rests != nil {
			heap.Remove(&l.rests.lines, l.index)
			l.rests = nil
		}
		a.get(l)
	}
}

// get has a line that is nowhere looked at.
func (a *Limiter) get(l *line) {
	l.rests, l.inReady, l.head = nil, true, l.first()
	heap.Push(&a.ready, l)
}

// yield has others looked at than a line that was told of a place and does not go first any more.
func (a *Limiter) yield(l *line) {
	for c := range l.counters() {
		a.rouse(c)
	}
}

func (a *Limiter) unplace(l *line) {
	switch {
	case l.rests != nil:
		heap.Remove(&l.rests.lines, l.index)
		l.rests = nil
	case l.inReady:
		heap.Remove(&a.ready, l.index)
		l.inReady = false
		a.yield(l)
	}
}

func (a *Limiter) hold(e *entry) {
	e.phase = holding
	if e.held {
		a.unoffered[e.id] = e
	}
	for _, s := range e.line.slots {
		s.holders[e.id] = e
	}
	for _, f := range e.line.funds {
		f.holders[e.id] = e
		f.reserve(1)
	}
	a.pledge(e, !e.live)
	a.offered(e)
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
		for c := range l.counters() {
			c.waits--
			delete(c.replacing, e)
		}
		if len(l.slots) > 0 {
			a.crowd--
		}
		a.place(l)
	case holding:
		delete(a.unoffered, e.id)
		a.pledge(e, false)
		for _, s := range e.line.slots {
			delete(s.holders, e.id)
			a.wake(s.counter)
		}
		for _, f := range e.line.funds {
			delete(f.holders, e.id)
			f.reserve(-1)
			a.wake(f.counter)
		}
		a.started(e)
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
	exit(l.scopes)
	for c := range l.counters() {
		a.release(c)
	}
}

// release forgets a counter that a line has left if it was the last, and nothing of it is used up.
func (a *Limiter) release(c *counter) {
	if c.lines--; c.lines == 0 && !c.kept && time.Time(c.bucket).IsZero() && c.tally == (Tally{}) {
		a.forget(c)
	}
}

func (a *Limiter) forget(c *counter) {
	if c.index >= 0 {
		heap.Remove(&a.opening, c.index)
	}
	delete(a.counters, c.name)
	c.scope.uses--
}

// used tells whether something of a counter is used up, or it is the present rate of a queue.
func (c *counter) used(now time.Time) bool {
	return c.kept || time.Time(c.bucket).After(now) || c.tally != (Tally{}) && c.tally.Blank(c.period).After(now)
}

// reserve sets aside what so many of the tasks of a line may run, or gives it back.
func (f fund) reserve(n int) {
	if f.how.Reserve == 0 {
		f.underway.Open += n
	}
	f.underway.Reserved += time.Duration(n) * f.how.Reserve
}

// pledge has a task that holds its places count as one that will start, or no more.
func (a *Limiter) pledge(e *entry, will bool) {
	if e.pledged == will {
		return
	}
	e.pledged = will
	for _, f := range e.line.funds {
		if will {
			f.underway.Starts++
			continue
		}
		f.underway.Starts--
		a.wake(f.counter)
	}
}

// wake has the best of the lines that rest at a counter looked at again.
func (a *Limiter) wake(c *counter) {
	if c.index >= 0 {
		heap.Remove(&a.opening, c.index)
	}
	a.rouse(c)
}

// rouse has the first of each row at a counter looked at.
func (a *Limiter) rouse(c *counter) {
	for _, r := range c.rows {
		if len(r.lines.list) > 0 {
			a.get(heap.Pop(&r.lines).(*line))
		}
	}
}

// Unoffered returns those that are known to be admitted and of which no offer is known, in order.
func (a *Limiter) Unoffered() []Grant {
	all := make([]Grant, 0, len(a.unoffered))
	for id, e := range a.unoffered {
		if e.open {
			continue
		}
		all = append(all, Grant{Task: id, Turn: e.turn, Rated: e.rated})
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

// Knows tells whether it knows of a task.
func (a *Limiter) Knows(id ID) bool { return a.entries[id] != nil }

// Len is how many tasks it knows of.
func (a *Limiter) Len() int { return len(a.entries) }

// Prune forgets rates and budgets that nobody needs and that are as good as untouched now.
func (a *Limiter) Prune(now time.Time) {
	for _, c := range a.counters {
		if c.lines == 0 && !c.used(now) {
			a.forget(c)
		}
	}
	a.pruneScopes()
}
