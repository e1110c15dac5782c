package verify

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/quota"
)

// Whom limits admit, and whom cancel_old stops, follows from all tasks that a scheduler knew of. The admission names up to
// where that was, so a [quota.Limiter] that knows just that decides again. It lags behind the log: what has been read is kept
// until no admission is to be expected that was made without it. Schedulers know the log up to different places, so admissions
// are judged in the order of what was known, and not of the log; on the chain of a scope both are one.

// lagging is how many sequences after it an admission is judged, at the earliest. One that was made by less than what is
// known by then is not judged.
const lagging = 8192

// lineup is what is known of tasks before their limits.
type lineup struct {
	known *quota.Limiter
	upTo  uint64
	next  uint64           // when admissions are judged again
	taken int              // of news, what is known
	news  []news           // after upTo, in order
	open  []*admission     // not judged yet, in the order of the log
	rated map[task.ID]bool // tasks that the rate of a queue holds and nothing else
	ruled bool             // a queue has a rate or had one
	stops map[task.ID]stop // tasks that limits have stopped, until the admission that says so
}

// stop is the end of a task that a limit refuses, or the request to stop of one that has to make place: that has details.
type stop struct {
	seq, seen      uint64
	limit, details string
}

// news is what one record has changed: of a task, or of a queue.
type news struct {
	stand quota.Stand
	limit limited
	queue *task.Queue
	took  task.Shift // what it did to the attempts of the task
	seq   uint64
}

// admission is what was recorded of one decision: a fact for each of its scopes, one behind the other.
type admission struct {
	facts []admitted
	by    task.By
	at    time.Time
}

// admitted is one of these facts.
type admitted struct {
	seq   uint64
	at    time.Time
	scope task.Scope
	what  task.Granted
	from  map[string]time.Time // how its rates stood before
	stops map[task.ID]stop     // of those that it names as refused
	told  bool                 // what is wrong with it
}

func (a *admission) first() uint64 { return a.facts[0].seq }
func (a *admission) last() uint64  { return a.facts[len(a.facts)-1].seq }

func (l *lineup) limiter() *quota.Limiter {
	if l.known == nil {
		l.known, l.rated, l.stops = quota.NewLimiter(), map[task.ID]bool{}, map[task.ID]stop{}
	}
	return l.known
}

// add has admissions judged from time to time, before a record.
func (l *lineup) add(v *Verifier, seq uint64) {
	if l.known != nil && seq >= l.next {
		l.next = seq + lagging/8
		l.catchUp(v, seq-min(seq, lagging))
	}
}

// stands keeps what has become of a task. The story is that after the record.
func (l *lineup) stands(v *Verifier, s *story, r *events.Record) {
	if len(s.limit) == 0 && !l.ruled {
		return
	}
	k := v.tasks.task(s.id, &s.now)
	l.limiter()
	if len(s.limit) == 0 {
		if !k.Limited() && !l.rated[s.id] {
			return
		}
		if l.rated[s.id] = true; !k.Limited() {
			delete(l.rated, s.id)
		}
	}
	l.news = append(l.news, news{seq: r.Seq, stand: quota.StandOf(&k), limit: s.limit, took: v.tasks.took})
}

// said keeps what was said of a queue.
func (l *lineup) said(seq uint64, q *task.Queue) {
	if q.RateSince > 0 {
		l.ruled = true
		l.news = append(l.news, news{seq: seq, queue: q})
	}
}

// stopped keeps that a limit refused a task, or asked it to make place and said why.
func (l *lineup) stopped(v *Verifier, s *story, r *events.Record, details string) {
	if by := by(r); by.Rule == task.RuleLimit && v.whole() {
		l.limiter()
		l.stops[s.id] = stop{r.Seq, by.Seen, strings.Clone(by.Limit), strings.Clone(details)}
	}
}

// unborne tells of those that no admission has borne out, now that their batch is over for certain.
func (l *lineup) unborne(v *Verifier) {
	for id, s := range sorted(l.stops) {
		delete(l.stops, id)
		v.find(Decisions, Finding{Task: id, Seqs: []uint64{s.seq}, Look: "`millrace events show " + number(s.seq) + "`",
			What: fmt.Sprintf("the task is refused or stopped by %s, and no limit.granted on the chain of that names it", s.limit)})
	}
}

// admits keeps an admission until it is judged.
func (l *lineup) admits(v *Verifier, r *events.Record, e *task.Granted, from map[string]time.Time, told bool) {
	l.limiter()
	f := admitted{seq: r.Seq, at: r.Fact.At, scope: task.Scope(strings.Clone(string(r.Fact.Scope))), what: v.mine(e), from: from, told: told}
	for _, id := range f.what.Refused {
		s, ok := l.stops[id]
		if !ok || task.ScopeOf(s.limit) != f.scope {
			v.granted(r, id, 0, "it names a task that no fact before it refuses or asks to make place")
			continue
		}
		if f.stops == nil {
			f.stops = map[task.ID]stop{}
		}
		f.stops[id] = s
		delete(l.stops, id)
	}
	one := &admission{facts: []admitted{f}, by: task.By{Seen: by(r).Seen, Cut: by(r).Cut}, at: r.Fact.At}
	for _, of := range by(r).Closed {
		one.by.Closed = append(one.by.Closed, task.Scope(strings.Clone(string(of))))
	}
	for n := len(l.open); n > 0 && one.joins(l.open[n-1]); n-- {
		one.facts = append(l.open[n-1].facts, one.facts...)
		l.open = l.open[:n-1]
	}
	l.open = append(l.open, one)
}

// mine is an admission that shares no memory with a record.
func (v *Verifier) mine(e *task.Granted) (own task.Granted) {
	words := &v.tasks.words
	for _, g := range e.Grants {
		g.Task = task.ID(strings.Clone(string(g.Task)))
		limits := g.Limits
		g.Limits = make([]string, 0, len(limits))
		for _, name := range limits {
			g.Limits = append(g.Limits, words.list[words.number(name)])
		}
		own.Grants = append(own.Grants, g)
	}
	own.Rates = make(map[string]time.Time, len(e.Rates))
	for name, used := range e.Rates {
		own.Rates[words.list[words.number(name)]] = used
	}
	for _, id := range e.Refused {
		own.Refused = append(own.Refused, task.ID(strings.Clone(string(id))))
	}
	return own
}

// joins tells whether an admission is of one decision with that before it: they admit a task together.
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

// catchUp judges the admissions that lie so far back that none is to be expected any more which was made by less.
func (l *lineup) catchUp(v *Verifier, last uint64) {
	slices.SortStableFunc(l.open, func(a, b *admission) int { return cmp.Compare(a.by.Seen, b.by.Seen) })
	for slices.ContainsFunc(l.open, func(a *admission) bool { return a.last() <= last }) {
		l.judge(v, l.together())
	}
	if len(l.open) > 0 {
		last = min(last, l.open[0].by.Seen)
	}
	slices.SortFunc(l.open, func(a, b *admission) int { return cmp.Compare(a.first(), b.first()) })
	l.advance(v, last)
	l.news = slices.Delete(l.news, 0, l.taken)
	l.taken = 0
}

// advance takes over what was known up to a sequence.
func (l *lineup) advance(v *Verifier, to uint64) {
	for ; l.taken < len(l.news) && l.news[l.taken].seq <= to; l.taken++ {
		now := &l.news[l.taken]
		if now.queue != nil {
			l.limiter().Queue(*now.queue)
		} else {
			if now.took.Ended || now.took.Began {
				l.limiter().Spend(now.limit.counters(v), now.took)
			}
			l.limiter().Stands(now.stand, func() ([]task.Counter, error) { return now.limit.counters(v), nil })
		}
	}
	l.upTo = max(l.upTo, to)
}

// counters are the limits as a task has them.
func (l limited) counters(v *Verifier) (all []task.Counter) {
	for _, b := range l {
		all = append(all, task.Counter{Name: v.tasks.words.list[b.counter], Max: int(b.max), OnLimit: b.onLimit, Rate: v.tasks.allowances.list[b.how].rate, Allows: v.tasks.allowances.list[b.how].budget})
	}
	return all
}

// together takes out the admission that was made by least, and others that were decided with it, as far as can be told.
func (l *lineup) together() (all []*admission) {
	first := l.open[0]
	scopes := map[task.Scope]bool{}
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

// judge makes a decision again that was recorded as some admissions.
func (l *lineup) judge(v *Verifier, all []*admission) {
	l.limiter()
	defer func() {
		for _, a := range all {
			l.take(a)
		}
	}()
	by, at := &all[0].by, all[0].at
	if by.Seen < l.upTo {
		v.forgotten += len(all)
		return
	}
	l.advance(v, by.Seen)
	for _, a := range all {
		for i := range a.facts {
			for name, used := range a.facts[i].from {
				l.known.Bucket(name, task.Bucket(used))
			}
		}
	}
	d, ok := l.known.Again(at, quota.GrantsAtOnce, by.Closed)
	if !ok {
		v.forgotten += len(all)
		return
	}
	for _, a := range all {
		if a.whole() { // else I-4 says so, unless the log ends here
			l.compare(v, a, &d)
		}
	}
	l.known.Undo(&d)
}

// compare tells what is wrong with an admission.
func (l *lineup) compare(v *Verifier, a *admission, d *quota.Decision) {
	for i := range a.facts {
		f := &a.facts[i]
		if f.told {
			continue
		}
		id, wrong := a.differs(f.what.Grants, d.Under(f.scope))
		switch {
		case wrong == "":
			l.refused(v, a, f)
		case l.unsure(v, a):
			v.forgotten++
			return
		default:
			v.admittedWrong(f, id, wrong)
		}
	}
}

// unsure tells whether a decision depends on other chains of which it is not certain what was known: an admission there came
// since, which may be by whoever decided or not, or a pause was asked for.
func (l *lineup) unsure(v *Verifier, a *admission) bool {
	var scopes []task.Scope
	for i := range a.facts {
		scopes = append(scopes, a.facts[i].scope)
	}
	open, _ := l.known.Around(scopes)
	for _, of := range open {
		if l.known.Head(of) > a.by.Seen {
			return true
		}
	}
	for n, b := range v.buckets {
		if len(b.paused) > 0 && slices.Contains(open, task.ScopeOf(v.tasks.words.list[n])) {
			return true
		}
	}
	return false
}

// whole tells whether all scopes of those whom it admits are there.
func (a *admission) whole() bool {
	for i := range a.facts {
		for _, g := range a.facts[i].what.Grants {
			for _, name := range g.Limits {
				of := task.ScopeOf(name)
				if !slices.ContainsFunc(a.facts, func(f admitted) bool { return f.scope == of }) {
					return false
				}
			}
		}
	}
	return true
}

// differs says what is wrong with whom a fact admits.
func (a *admission) differs(have, want []task.Grant) (task.ID, string) {
	for i, g := range have {
		switch {
		case i >= len(want):
			return g.Task, fmt.Sprintf("by all that was known at %d, no more than %d are admitted", a.by.Seen, len(want))
		case g.Task != want[i].Task:
			return g.Task, fmt.Sprintf("by all that was known at %d, task %s goes before it", a.by.Seen, want[i].Task)
		case g.Turn != want[i].Turn || g.Rated != want[i].Rated || !slices.Equal(g.Limits, want[i].Limits):
			return g.Task, fmt.Sprintf("it is admitted for turn %d under %v with %d, and was waiting for turn %d under %v with %d", g.Turn, g.Limits, g.Rated, want[i].Turn, want[i].Limits, want[i].Rated)
		}
	}
	if len(have) < len(want) && !a.by.Cut {
		return want[len(have)].Task, fmt.Sprintf("by all that was known at %d, the task is admitted too", a.by.Seen)
	}
	return "", ""
}

// refused tells what is wrong with those whom a fact names as refused, or has make place.
func (l *lineup) refused(v *Verifier, a *admission, f *admitted) {
	limits := map[string]bool{}
	for id, s := range sorted(f.stops) {
		switch {
		case s.seen != a.by.Seen:
			v.admittedWrong(f, id, fmt.Sprintf("it was stopped by all that was known at %d, and not at %d", s.seen, a.by.Seen))
		case s.details != "":
			limits[s.limit] = true
			continue
		case !l.known.Full(id, s.limit):
			v.admittedWrong(f, id, fmt.Sprintf("the task is refused by %s, which had a place by all that was known at %d, or it was not waiting for one", s.limit, s.seen))
		}
	}
	for name := range sorted(limits) {
		l.replaced(v, a, f, name)
	}
}

// replaced tells what is wrong with those who have to make place under a limit.
func (l *lineup) replaced(v *Verifier, a *admission, f *admitted, name string) {
	oldest := map[task.ID]string{}
	for _, r := range l.known.Oldest(name) {
		oldest[r.Task] = r.Replace().Reason
		if _, named := f.stops[r.Task]; !named && !a.by.Cut && !l.wentOn(r.Task, f.seq) {
			v.admittedWrong(f, r.Task, fmt.Sprintf("by all that was known at %d, it has to make place under %s too", a.by.Seen, name))
			return
		}
	}
	for id, s := range sorted(f.stops) {
		switch want := oldest[id]; {
		case s.limit != name || s.details == "" || s.details == want:
		case want == "":
			v.admittedWrong(f, id, fmt.Sprintf("by all that was known at %d, it does not have to make place under %s", a.by.Seen, name))
		default:
			v.admittedWrong(f, id, fmt.Sprintf("it was stopped because %q, and should be because %q", s.details, want))
		}
	}
}

// wentOn tells whether a task ended, or was asked to stop, after what is known and before a sequence.
func (l *lineup) wentOn(id task.ID, before uint64) bool {
	return slices.ContainsFunc(l.news[l.taken:], func(n news) bool {
		return n.seq < before && n.stand.ID == id && (n.stand.State.Terminal() || n.stand.State == task.Cancelling)
	})
}

// take takes over what was recorded.
func (l *lineup) take(a *admission) {
	for i := range a.facts {
		for _, g := range a.facts[i].what.Grants {
			l.known.Granted(g)
		}
		l.known.Learn(a.facts[i].scope, a.facts[i].seq)
		for name, used := range a.facts[i].what.Rates {
			l.known.Bucket(name, task.Bucket(used))
		}
		for _, id := range a.facts[i].what.Refused {
			l.known.Stopped(id)
		}
	}
}

// admittedWrong tells what is wrong with an admission.
func (v *Verifier) admittedWrong(f *admitted, id task.ID, what string) {
	v.find(Decisions, Finding{Task: id, Seqs: []uint64{f.seq},
		Type: events.LimitGranted, About: string(f.scope), At: f.at,
		What: fmt.Sprintf("%s of %s, decided again, is another one: %s", events.LimitGranted, f.scope, what),
		Look: "`millrace events show " + number(f.seq) + "`"})
}
