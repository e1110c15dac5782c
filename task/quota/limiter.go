package quota

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"millrace/task"
	"millrace/task/limit"
	"millrace/task/placement"
	"millrace/task/queue"
	"millrace/task/value"
)

// Limiter decides which tasks their limits admit. It holds a small entry for each task that is
// under way or waits, and is told of every change. The cost of a decision depends on its size, not
// on how many tasks wait. It reads no clock and is for one goroutine.
//
// A line holds all tasks that wait for the same counters, by priority and then by age. The first
// task of a line goes when all its counters have a place, and takes all these places at once. Until
// then the line rests at the first counter without a place, takes nothing, and does not delay other
// lines. So tasks with several counters cannot deadlock.
type Limiter struct {
	entries  map[task.ID]*entry
	counters map[string]*counter
	lines    map[string]*line
	ready    value.Heap[*line]    // lines whose first entry is to be examined
	due      value.Heap[*entry]   // tasks that wait for their time, the soonest first
	opening  value.Heap[*counter] // awaited rates and budgets that are shut, the first to open first
	// fresh are tasks for which a bound may lack a place and that would not wait for one.
	fresh map[task.ID]struct{}
	// unoffered are admitted tasks that wait for their offer.
	unoffered map[task.ID]*entry
	// queues are the queues that have a line or a fact.
	queues map[string]*queue.Queue
	scopes map[limit.Scope]*scope
	// stopped is where the log refuses a task or asks it to stop, as long as only older states of it
	// are told, and told the latest sequence of a state.
	stopped map[task.ID]uint64
	told    uint64
	out     int       // scopes with an admission on its way
	crowd   int       // how many wait for a place that others hold
	latest  time.Time // the latest time that a task waited for and that has come
}

// NewLimiter returns a limiter without tasks.
func NewLimiter() *Limiter {
	return &Limiter{
		entries: map[task.ID]*entry{}, counters: map[string]*counter{}, lines: map[string]*line{},
		ready: lines(), due: sleepers(), opening: counters(),
		fresh: map[task.ID]struct{}{}, unoffered: map[task.ID]*entry{}, queues: map[string]*queue.Queue{}, scopes: map[limit.Scope]*scope{},
		stopped: map[task.ID]uint64{},
	}
}

// Counters returns the limits of a task: [task.Work.Counters].
type Counters func() ([]limit.Counter, error)

// Each is given a task under limits that has not ended, with its latest admission if no offer has
// followed, else nil.
type Each func(t Stand, counters Counters, admitted *task.Grant)

// LoadLimiter returns a limiter filled from a read model: the queues, the unended tasks under
// limits, and the usage and sequence that limited returns.
func LoadLimiter(queues []queue.Queue, limited func(each Each) (Used, uint64, error)) (*Limiter, uint64, error) {
	a := NewLimiter()
	for i := range queues {
		a.Queue(queues[i])
	}
	used, seq, err := limited(func(t Stand, counters Counters, admitted *task.Grant) {
		a.Stands(t, counters)
		if admitted != nil {
			a.Granted(*admitted)
		}
	})
	a.Used(used)
	return a, seq, err
}

// phase is the progress of a task through its limits.
type phase uint8

const (
	sleeping phase = iota // its time has not come
	waiting               // in its line
	holding               // it has a place in each counter
)

// entry is a task as the limiter knows it.
type entry struct {
	id       task.ID
	phase    phase
	asked    bool // it was refused or asked to stop
	first    bool // it waits for its first attempt
	held     bool // it is not offered
	woken    bool // its time has come
	open     bool // its grant is decided and not recorded yet
	live     bool // it has started
	pledged  bool // it counts as about to start
	priority int8
	index    int // in the heap where it waits
	seq      uint64
	turn     uint64
	granted  uint64 // the turn for which it was admitted, if sure
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

// Stand is the part of a task that its limits use.
type Stand struct {
	ID               task.ID
	Seq, Turn, Rated uint64
	Born, Due        time.Time
	State            task.State
	Route            placement.Route
	// Queue is the queue whose rate applies to the task.
	Queue string
	// Limited and Held are [task.Task.Limited] and [task.Task.Admissible]. First says that the task
	// was never admitted.
	Limited, Held, First bool
}

// StandOf returns the Stand of a task.
func StandOf(t *task.Task) Stand {
	return Stand{
		ID: t.ID, Seq: t.Seq, Turn: t.Turn, Rated: t.Rated, Born: t.SubmittedAt, Due: t.Due, State: t.State, Route: t.Route, Queue: t.RateQueue(),
		Limited: t.Limited(), Held: t.Admissible(),
		First: t.Attempt == 0 && t.State == task.Held && !t.Throttled, // a task that was put back or postponed was admitted before
	}
}

// Put takes over the new state of a task. It ignores tasks without limits, tasks with another hold,
// and states that it knows already.
func (a *Limiter) Put(t *task.Task) { a.Stands(StandOf(t), t.Counters) }

// Stands is [Limiter.Put] for callers without the task.
func (a *Limiter) Stands(t Stand, counters Counters) {
	e := a.entries[t.ID]
	if e != nil && t.Seq <= e.seq {
		return
	}
	a.told = max(a.told, t.Seq)
	stopped := t.Seq < a.stopped[t.ID]
	if !stopped {
		delete(a.stopped, t.ID)
	}
	live := t.State == task.Running || t.State == task.Cancelling
	if !t.Limited || !t.Held && t.State != task.Pending && !live {
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
			return // such a birth is refused, so a foreign one is never admitted
		}
		e = &entry{
			id:    task.ID(strings.Clone(string(t.ID))),
			line:  a.lineOf(t.Queue, t.Route.Queue(), counters),
			born:  t.Born.UnixMicro(),
			index: -1,
		}
		e.line.members++
		a.entries[t.ID] = e
	}
	holds := task.HoldsPlaces(t.State, t.Held, t.Turn, e.granted, e.sure)
	e.seq = t.Seq
	if e.phase == holding && holds {
		e.turn, e.held = t.Turn, t.Held
		e.asked = e.asked || t.State == task.Cancelling
		if !t.Held {
			delete(a.unoffered, e.id)
		}
		if t.State == task.Pending {
			e.rated = t.Rated
		}
		if e.live = live; e.live {
			a.started(e)
		} else { // it may have waited meanwhile without a notice
			a.offered(e)
		}
		a.pledge(e, !e.live)
		return
	}
	a.leave(e)
	if e.live = live; t.State == task.Pending {
		e.rated = t.Rated
	}
	e.turn, e.due, e.woken, e.held, e.first = t.Turn, t.Due, false, t.Held, t.First
	e.priority, e.asked = int8(t.Route.Priority()), t.State == task.Cancelling || stopped
	switch {
	case holds:
		a.hold(e)
	case !e.asked:
		a.wait(e)
	}
}

// Granted records that a task was admitted for a turn. It ignores a grant for any other than the
// present turn, which may come late: while a decision about the present turn is on its way.
func (a *Limiter) Granted(g task.Grant) {
	e := a.entries[g.Task]
	if e == nil || e.sure && g.Turn < e.granted {
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
	case e.phase == holding: // by an earlier grant; the wait in between was not reported
		a.offered(e)
	case e.turn == g.Turn:
		a.leave(e)
		a.hold(e)
	}
}

// Bucket takes over the state of a rate.
func (a *Limiter) Bucket(name string, b limit.Bucket) {
	c := a.counter(name)
	c.bucket = b
	c.told++
	a.wake(c)
}

// UsedUntil is until when a bucket is used, as far as known; zero for a counter without tasks.
func (a *Limiter) UsedUntil(name string) time.Time {
	if c := a.counters[name]; c != nil {
		return time.Time(c.bucket)
	}
	return time.Time{}
}

// Spend is [limit.Tallies.Spend]. Call it before [Limiter.Put] of the same fact or a later one:
// until then the task counts as not started, or as running.
func (a *Limiter) Spend(counters []limit.Counter, s limit.Shift) {
	for _, of := range counters {
		if p, ok := limit.PeriodOf(of.Name); ok {
			c := a.counter(of.Name)
			c.tally = c.tally.Spend(p, s)
			a.wake(c) // the run time of such tasks may be known now
		}
	}
}

// Used is the usage of rates and budgets by counter: until when a bucket is used, and the tally of
// a budget.
type Used struct {
	Rates   map[string]time.Time
	Budgets limit.Tallies
}

// Used takes over the usage.
func (a *Limiter) Used(u Used) {
	for name, used := range u.Rates {
		a.Bucket(name, limit.Bucket(used))
	}
	for name, y := range u.Budgets {
		c := a.counter(name)
		c.tally = y
		a.wake(c)
	}
}

// Pause returns the buckets of a task's rates as they must become because the task asked for a
// delay until a time. It omits those that are shut long enough already.
func (a *Limiter) Pause(w *task.Work, until time.Time) map[string]limit.Bucket {
	counters, err := w.Counters()
	if err != nil {
		return nil
	}
	if q := a.queues[w.RateQueue()]; q != nil && q.Rate.Limit > 0 {
		counters = append(counters, limit.Counter{Name: queue.RateOf(q).Counter(), Rate: q.Rate})
	}
	shut := map[string]limit.Bucket{}
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

// wait puts an unplaced entry into its line, or among the tasks whose time has not come.
func (a *Limiter) wait(e *entry) {
	if !e.due.IsZero() && !e.woken {
		e.phase = sleeping
		a.due.Push(e)
		return
	}
	a.queue(e)
}

func (a *Limiter) queue(e *entry) {
	e.phase = waiting
	l := e.line
	l.waiting.Push(e)
	for c := range l.counters() {
		c.waits++
	}
	if len(l.slots) > 0 {
		a.crowd++
	}
	if l.picky && e.first {
		a.fresh[e.id] = struct{}{}
		for _, s := range l.slots {
			if s.onLimit == limit.CancelOld {
				if s.replacing == nil {
					s.replacing = map[*entry]int{}
				}
				s.replacing[e] = s.max
			}
		}
	}
	a.place(l)
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

// leave removes an entry from its place.
func (a *Limiter) leave(e *entry) {
	delete(a.fresh, e.id)
	switch e.phase {
	case sleeping:
		if e.index >= 0 {
			a.due.Remove(e.index)
		}
	case waiting:
		l := e.line
		l.waiting.Remove(e.index)
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

// pledge starts or ends counting a task that holds its places as one about to start.
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

// Unoffered returns, in order, the admitted tasks without a known offer.
func (a *Limiter) Unoffered() []task.Grant {
	all := make([]task.Grant, 0, len(a.unoffered))
	for id, e := range a.unoffered {
		if e.open {
			continue
		}
		all = append(all, task.Grant{Task: id, Turn: e.turn, Rated: e.rated})
	}
	slices.SortFunc(all, func(x, y task.Grant) int { return cmp.Compare(x.Task, y.Task) })
	return all
}

// Awaits tells whether the task is admitted for this turn without a known offer.
func (a *Limiter) Awaits(id task.ID, turn uint64) bool {
	e := a.unoffered[id]
	return e != nil && e.turn == turn
}

// Waiting is how many tasks wait for a place that another task holds.
func (a *Limiter) Waiting() int { return a.crowd }

// Knows tells whether the limiter has an entry of a task.
func (a *Limiter) Knows(id task.ID) bool { return a.entries[id] != nil }

// Len is how many tasks the limiter has.
func (a *Limiter) Len() int { return len(a.entries) }

// Prune forgets rates and budgets without tasks that are unused by now.
func (a *Limiter) Prune(now time.Time) {
	for _, c := range a.counters {
		if c.lines == 0 && !c.used(now) {
			a.forget(c)
		}
	}
	a.pruneScopes()
}
