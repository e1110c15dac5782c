package findings

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/limit"
	"millrace/task/queue"
	"millrace/task/quota"
	"millrace/task/value"
)

// Which tasks limits admit, and which cancel_old stops, follows from all tasks that the scheduler
// knew. The admission names the sequence up to which it knew the log, so a [quota.Limiter] with
// exactly that knowledge repeats the decision. The limiter lags behind the log: what was read is
// kept until no admission made with less knowledge can come. Schedulers know the log up to
// different sequences, so admissions are judged in the order of knowledge, not of the log. On the
// chain of a scope the two orders are the same.

// lagging is how many sequences later an admission is judged, at the earliest. One that was made
// with less than the limiter's knowledge by then is not judged.
const lagging = 65_536

// Lines is the state of tasks before their limits.
type Lines struct {
	book  *Collector
	terms *Terms
	log   Log
	first uint64 // the first record
	batch batch
	rates map[Word]*bucket // by the number of the name

	known *quota.Limiter
	upTo  uint64
	next  uint64                    // when admissions are judged next
	taken int                       // how many of news the limiter knows
	news  []news                    // after upTo, in order
	open  []*admission              // not judged yet, in the order of the log
	rated map[task.ID]bool          // tasks that only the rate of a queue holds
	ruled bool                      // a queue has or had a rate
	stops map[task.ID]stop          // tasks that limits have stopped, until the admission that names them
	shut  map[limit.Scope]time.Time // scopes with a rate that a delay may have shut, and until when
}

// Log is the other required knowledge of the log.
type Log struct {
	// Whole tells whether the records begin with the log.
	Whole bool
	// Margin is how far the deciders' clocks may differ.
	Margin time.Duration
	// Queues are the queues of the log.
	Queues Queues
	// Task returns the limits of a task, and since when it waits; false if there is no such task.
	Task func(id task.ID) (under Bounds, turn uint64, ok bool)
}

// NewLines returns a Lines without tasks.
func NewLines(b *Collector, terms *Terms, log Log) *Lines {
	return &Lines{book: b, terms: terms, log: log, rates: map[Word]*bucket{}}
}

// Next gets each record before all other checks.
func (l *Lines) Next(r *events.Record) {
	if l.first == 0 {
		l.first = r.Seq
	}
	if l.known != nil && r.Seq >= l.next {
		l.next = r.Seq + lagging/8
		l.CatchUp(r.Seq - min(r.Seq, lagging))
	}
	l.batchAt(r)
	if len(l.stops) > 0 && r.Kind != events.KindChain && r.Kind != events.KindLimit {
		l.unborne()
	}
}

// stop is the end of a task that a limit refuses, or the request to stop one that must make place:
// the latter has details, which may be hidden.
type stop struct {
	seq, seen      uint64
	limit, details string
	hidden         bool
}

// news is the effect of one record on a task or a queue.
type news struct {
	stand quota.Stand
	limit Bounds
	queue *queue.Queue
	took  limit.Shift // its effect on the attempts of the task
	seq   uint64
}

// admission is the record of one decision: a fact for each of its scopes, directly behind each
// other.
type admission struct {
	facts []admitted
	by    task.By
	at    time.Time
	shut  []limit.Scope // where a delay may have shut a rate at that time
}

// admitted is one of these facts.
type admitted struct {
	seq   uint64
	at    time.Time
	scope limit.Scope
	what  task.Granted
	from  map[string]time.Time // the state of its rates before
	stops map[task.ID]stop     // of the tasks that it names as refused
	told  bool                 // its fault was reported
}

func (a *admission) first() uint64 { return a.facts[0].seq }
func (a *admission) last() uint64  { return a.facts[len(a.facts)-1].seq }

func (l *Lines) limiter() *quota.Limiter {
	if l.known == nil {
		l.known, l.rated, l.stops = quota.NewLimiter(), map[task.ID]bool{}, map[task.ID]stop{}
		l.shut = map[limit.Scope]time.Time{}
	}
	return l.known
}

// Follows tells whether the state of a task under bounds matters here.
func (l *Lines) Follows(under Bounds) bool { return len(under) > 0 || l.ruled }

// Stands keeps a task's state after a record, and the effect on its attempts.
func (l *Lines) Stands(k *task.Task, under Bounds, took limit.Shift, seq uint64) {
	l.limiter()
	if len(under) == 0 {
		if !k.Limited() && !l.rated[k.ID] {
			return
		}
		if l.rated[k.ID] = true; !k.Limited() {
			delete(l.rated, k.ID)
		}
	}
	l.news = append(l.news, news{seq: seq, stand: quota.StandOf(k), limit: under, took: took})
}

// Said keeps the settings of a queue.
func (l *Lines) Said(seq uint64, q *queue.Queue) {
	if q.RateSince > 0 {
		l.ruled = true
		l.news = append(l.news, news{seq: seq, queue: q})
	}
}

// Stopped keeps the fact that a limit refused a task, or asked it to make place, with the details.
func (l *Lines) Stopped(id task.ID, r *events.Record, details string) {
	if by := By(r); by.Rule == task.RuleLimit && l.log.Whole {
		l.limiter()
		l.stops[id] = stop{r.Seq, by.Seen, strings.Clone(by.Limit), strings.Clone(details), l.book.HidesText(details)}
	}
}

// pauses records that a rate on the chain of a scope may be shut until a time.
func (l *Lines) pauses(of limit.Scope, until time.Time) {
	if l.limiter(); until.After(l.shut[of]) {
		l.shut[of] = until
	}
}

// shutAt returns the scopes with a rate that a delay may have shut. An admission keeps them,
// because facts recorded before it is judged may have ended the delay.
func (l *Lines) shutAt(at time.Time, margin time.Duration) (all []limit.Scope) {
	for of, until := range l.shut {
		switch {
		case until.After(at):
			all = append(all, of)
		case until.Before(at.Add(-margin)):
			delete(l.shut, of)
		}
	}
	return all
}

// unborne reports the stops that no admission has confirmed, now that their batch is certainly
// over.
func (l *Lines) unborne() {
	for id, s := range Sorted(l.stops) {
		delete(l.stops, id)
		l.book.Find(Decisions, Finding{Task: id, Seqs: []uint64{s.seq}, Look: Show(s.seq),
			What: fmt.Sprintf("the task is refused or stopped by %s, and no limit.granted on the chain of that names it", s.limit)})
	}
}

// admits keeps an admission until it is judged.
func (l *Lines) admits(r *events.Record, e *task.Granted, from map[string]time.Time, told bool) {
	l.limiter()
	f := admitted{
		seq:   r.Seq,
		at:    r.Fact.At,
		scope: limit.Scope(strings.Clone(string(r.Fact.Scope))),
		what:  l.mine(e),
		from:  from,
		told:  told,
	}
	for _, id := range f.what.Refused {
		s, ok := l.stops[id]
		if !ok || limit.ScopeOf(s.limit) != f.scope {
			l.granted(r, id, 0, "it names a task that no event before it refuses or asks to make place")
			continue
		}
		if f.stops == nil {
			f.stops = map[task.ID]stop{}
		}
		f.stops[id] = s
		delete(l.stops, id)
	}
	one := &admission{
		facts: []admitted{f},
		by:    task.By{Seen: By(r).Seen, Cut: By(r).Cut},
		at:    r.Fact.At,
		shut:  l.shutAt(r.Fact.At, l.log.Margin),
	}
	for _, of := range By(r).Closed {
		one.by.Closed = append(one.by.Closed, limit.Scope(strings.Clone(string(of))))
	}
	for n := len(l.open); n > 0 && one.joins(l.open[n-1]); n-- {
		one.facts = append(l.open[n-1].facts, one.facts...)
		l.open = l.open[:n-1]
	}
	l.open = append(l.open, one)
}

// mine is a copy of an admission that shares no memory with a record.
func (l *Lines) mine(e *task.Granted) (own task.Granted) {
	words := l.terms.words
	for _, g := range e.Grants {
		g.Task = task.ID(strings.Clone(string(g.Task)))
		limits := g.Limits
		g.Limits = make([]string, 0, len(limits))
		for _, name := range limits {
			g.Limits = append(g.Limits, words.Text(words.Number(name)))
		}
		own.Grants = append(own.Grants, g)
	}
	own.Rates = make(map[string]time.Time, len(e.Rates))
	for name, used := range e.Rates {
		own.Rates[words.Text(words.Number(name))] = used
	}
	for _, id := range e.Refused {
		own.Refused = append(own.Refused, task.ID(strings.Clone(string(id))))
	}
	return own
}

// joins tells whether an admission belongs to the same decision as the one before: both admit a
// task together.
func (a *admission) joins(before *admission) bool {
	if before.last()+1 != a.first() || before.by.Seen != a.by.Seen || !before.at.Equal(a.at) {
		return false
	}
	for i := range before.facts {
		for _, g := range before.facts[i].what.Grants {
			for j := range a.facts {
				if slices.ContainsFunc(a.facts[j].what.Grants, func(h task.Grant) bool { return h.Task == g.Task && h.Turn == g.Turn }) {
					return true
				}
			}
		}
	}
	return false
}

// CatchUp judges the admissions that lie so far back that none made with less knowledge can come.
func (l *Lines) CatchUp(last uint64) {
	slices.SortStableFunc(l.open, func(a, b *admission) int { return cmp.Compare(a.by.Seen, b.by.Seen) })
	for slices.ContainsFunc(l.open, func(a *admission) bool { return a.last() <= last }) {
		l.judge(l.together())
	}
	if len(l.open) > 0 {
		last = min(last, l.open[0].by.Seen)
	}
	slices.SortFunc(l.open, func(a, b *admission) int { return cmp.Compare(a.first(), b.first()) })
	l.advance(last)
	l.news = slices.Delete(l.news, 0, l.taken)
	l.taken = 0
}

// advance gives the limiter the changes up to a sequence.
func (l *Lines) advance(to uint64) {
	for ; l.taken < len(l.news) && l.news[l.taken].seq <= to; l.taken++ {
		now := &l.news[l.taken]
		if now.queue != nil {
			l.limiter().Queue(*now.queue)
		} else {
			if !now.took.None() {
				l.limiter().Spend(l.terms.counters(now.limit), now.took)
			}
			l.limiter().Stands(now.stand, func() ([]limit.Counter, error) { return l.terms.counters(now.limit), nil })
		}
	}
	l.upTo = max(l.upTo, to)
}

// together removes and returns the admission with the least knowledge, and those of the same
// decision, as far as can be told.
func (l *Lines) together() (all []*admission) {
	first := l.open[0]
	scopes := map[limit.Scope]bool{}
	rest := l.open[:0]
	for i, a := range l.open {
		if a.by.Seen != first.by.Seen {
			rest = append(rest, l.open[i:]...)
			break
		}
		later := !a.at.Equal(first.at) || !slices.Equal(a.by.Closed, first.by.Closed) ||
			slices.ContainsFunc(a.facts, func(f admitted) bool { return scopes[f.scope] })
		if later {
			rest = append(rest, a)
			continue
		}
		for j := range a.facts {
			scopes[a.facts[j].scope] = true
		}
		all = append(all, a)
	}
	clear(l.open[len(rest):])
	l.open = rest
	return all
}

// judge repeats a decision that was recorded as some admissions.
func (l *Lines) judge(all []*admission) {
	l.limiter()
	defer func() {
		for _, a := range all {
			l.take(a)
		}
	}()
	by, at := &all[0].by, all[0].at
	if by.Seen < l.upTo {
		l.book.Forgotten += len(all)
		return
	}
	l.advance(by.Seen)
	for _, a := range all {
		for i := range a.facts {
			for name, used := range a.facts[i].from {
				l.known.Bucket(name, limit.Bucket(used))
			}
		}
	}
	d := l.known.Again(at, quota.GrantsAtOnce, by.Closed)
	for _, a := range all {
		if a.whole() { // otherwise I-4 reports it, unless the log ends here
			l.compare(a, &d)
		}
	}
	l.known.Undo(&d)
}

// compare reports the faults of an admission.
func (l *Lines) compare(a *admission, d *quota.Decision) {
	for i := range a.facts {
		f := &a.facts[i]
		if f.told {
			continue
		}
		id, wrong := a.differs(f.what.Grants, d.Under(f.scope))
		switch {
		case wrong == "":
			l.refused(a, f)
		case l.unsure(a):
			l.book.Forgotten++
			return
		default:
			l.admittedWrong(f, id, wrong)
		}
	}
}

// unsure tells whether a decision depends on other chains whose known state is uncertain: an
// admission came there since, possibly by the same decider, or a delay was asked for.
func (l *Lines) unsure(a *admission) bool {
	var scopes []limit.Scope
	for i := range a.facts {
		scopes = append(scopes, a.facts[i].scope)
	}
	open, _ := l.known.Around(scopes)
	for _, of := range open {
		if l.known.Head(of) > a.by.Seen {
			return true
		}
	}
	return slices.ContainsFunc(a.shut, func(of limit.Scope) bool { return slices.Contains(open, of) })
}

// whole tells whether all scopes of its grants are present.
func (a *admission) whole() bool {
	for i := range a.facts {
		for _, g := range a.facts[i].what.Grants {
			for _, name := range g.Limits {
				of := limit.ScopeOf(name)
				if !slices.ContainsFunc(a.facts, func(f admitted) bool { return f.scope == of }) {
					return false
				}
			}
		}
	}
	return true
}

// differs describes a fault in the grants of a fact.
func (a *admission) differs(have, want []task.Grant) (task.ID, string) {
	for i, g := range have {
		switch {
		case i >= len(want):
			return g.Task, fmt.Sprintf("by all that was known at %d, no more than %d are admitted", a.by.Seen, len(want))
		case g.Task != want[i].Task:
			return g.Task, fmt.Sprintf("by all that was known at %d, task %s goes before it", a.by.Seen, want[i].Task)
		case g.Turn != want[i].Turn || g.Rated != want[i].Rated || !slices.Equal(g.Limits, want[i].Limits):
			return g.Task, fmt.Sprintf("it is admitted for turn %d under %s with %d, and was waiting for turn %d under %s with %d", g.Turn, value.List(g.Limits), g.Rated, want[i].Turn, value.List(want[i].Limits), want[i].Rated)
		}
	}
	if len(have) < len(want) && !a.by.Cut {
		return want[len(have)].Task, fmt.Sprintf("by all that was known at %d, the task is admitted too", a.by.Seen)
	}
	return "", ""
}

// refused reports faults in the tasks that a fact names as refused, or stops to make place.
func (l *Lines) refused(a *admission, f *admitted) {
	limits := map[string]bool{}
	for id, s := range Sorted(f.stops) {
		switch {
		case s.seen != a.by.Seen:
			l.admittedWrong(f, id, fmt.Sprintf("it was stopped by all that was known at %d, and not at %d", s.seen, a.by.Seen))
		case s.details != "":
			limits[s.limit] = true
			continue
		case !l.known.Full(id, s.limit):
			l.admittedWrong(f, id, fmt.Sprintf("the task is refused by %s, which had a place by all that was known at %d, or it was not waiting for one", s.limit, s.seen))
		}
	}
	for name := range Sorted(limits) {
		l.replaced(a, f, name)
	}
}

// replaced reports faults in the tasks that must make place under a limit.
func (l *Lines) replaced(a *admission, f *admitted, name string) {
	oldest := map[task.ID]string{}
	for _, r := range l.known.Oldest(name) {
		oldest[r.Task] = r.Replace().Reason
		if _, named := f.stops[r.Task]; !named && !a.by.Cut && !l.wentOn(r.Task, f.seq) {
			l.admittedWrong(f, r.Task, fmt.Sprintf("by all that was known at %d, it has to make place under %s too", a.by.Seen, name))
			return
		}
	}
	for id, s := range Sorted(f.stops) {
		switch want := oldest[id]; {
		case s.limit != name || s.details == "" || s.details == want || want != "" && s.hidden:
		case want == "":
			l.admittedWrong(f, id, fmt.Sprintf("by all that was known at %d, it does not have to make place under %s", a.by.Seen, name))
		default:
			l.admittedWrong(f, id, fmt.Sprintf("it was stopped because %q, and should be because %q", s.details, want))
		}
	}
}

// wentOn tells whether a task ended, or was asked to stop, after the limiter's knowledge and before
// a sequence.
func (l *Lines) wentOn(id task.ID, before uint64) bool {
	return slices.ContainsFunc(l.news[l.taken:], func(n news) bool {
		return n.seq < before && n.stand.ID == id && (n.stand.State.Terminal() || n.stand.State == task.Cancelling)
	})
}

// take gives the limiter a recorded admission.
func (l *Lines) take(a *admission) {
	for i := range a.facts {
		for _, g := range a.facts[i].what.Grants {
			l.known.Granted(g)
		}
		l.known.Learn(a.facts[i].scope, a.facts[i].seq)
		for name, used := range a.facts[i].what.Rates {
			l.known.Bucket(name, limit.Bucket(used))
		}
		for _, id := range a.facts[i].what.Refused {
			l.known.Stopped(id, a.facts[i].stops[id].seq)
		}
	}
}

// admittedWrong reports a fault in an admission.
func (l *Lines) admittedWrong(f *admitted, id task.ID, what string) {
	l.book.Find(Decisions, Finding{Task: id, Seqs: []uint64{f.seq},
		Type: events.LimitGranted, About: string(f.scope), At: f.at,
		What: fmt.Sprintf("%s of %s, decided again, is another one: %s", events.LimitGranted, f.scope, what),
		Look: Show(f.seq)})
}
