package findings

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/limit"
	"millrace/task/queue"
	"millrace/task/value"
)

// This file repeats the part of an admission that needs no other task: each task is under the
// counters that its admission names, and the rest of each rate is right. Only a delay that a
// failing task asks for may have come before without being known. Which tasks are admitted depends
// on all tasks: see [Lines].

// bucket is the memory of a rate.
type bucket struct {
	used   time.Time
	seq    uint64      // of the admission that left this state
	paused []time.Time // its states after requested delays, as long as they are later
}

// Pause shuts the rates of a task until a time: those of its limits, and that of its queue.
func (l *Lines) Pause(under Bounds, of string, until time.Time) {
	for _, b := range under {
		if how, ok := l.terms.rate(b); ok {
			l.pause(l.terms.words.Text(b.counter), how, until)
		}
	}
	if of != "" {
		if q, ok := l.log.Queues.Now(of); ok && q.Rate.Limit > 0 {
			l.pause(queue.RateOf(&q).Counter(), q.Rate, until)
		}
	}
}

func (l *Lines) pause(name string, how limit.Rate, until time.Time) {
	b := l.bucket(name)
	if p := time.Time(limit.Bucket{}.Pause(how, until)); p.After(b.used) && !slices.ContainsFunc(b.paused, p.Equal) {
		b.paused = append(b.paused, p)
		l.pauses(limit.ScopeOf(name), until)
	}
}

func (l *Lines) bucket(name string) *bucket {
	n := l.terms.words.Number(name)
	b := l.rates[n]
	if b == nil {
		b = &bucket{}
		l.rates[n] = b
	}
	return b
}

// Granted decides an admission again.
func (l *Lines) Granted(r *events.Record) {
	e, ok := r.Fact.Event.(task.Granted)
	if r.Err != nil || !ok || !l.book.Asked(Decisions) || !l.log.Whole {
		return
	}
	l.book.Checked[Decisions]++
	found := l.book.Broken(Decisions)
	if By(r).Seen == 0 {
		l.granted(r, "", 0, "it does not say up to where tasks were known")
	}
	takes := map[string][]limit.Rate{} // the draws from each rate, in order
	for i := range e.Grants {
		l.grantAgain(r, &e.Grants[i], takes)
	}
	for _, name := range slices.Sorted(maps.Keys(takes)) {
		if _, told := e.Rates[name]; !told {
			l.granted(r, "", 0, "it takes from "+name+", and does not say what is left")
		}
	}
	from := map[string]time.Time{}
	for _, name := range slices.Sorted(maps.Keys(e.Rates)) {
		if limit.ScopeOf(name) != r.Fact.Scope {
			l.granted(r, "", 0, "it says what is left of "+name+", which another chain counts")
			continue
		}
		from[name] = l.rateAgain(r, name, e.Rates[name], takes[name])
	}
	l.admits(r, &e, from, l.book.Broken(Decisions) > found)
}

// granted reports a fault in an admission.
func (l *Lines) granted(r *events.Record, id task.ID, other uint64, what string) {
	seqs := []uint64{r.Seq}
	if other > 0 {
		seqs = []uint64{other, r.Seq}
	}
	l.book.Find(Decisions, Finding{Task: task.ID(strings.Clone(string(id))), Seqs: seqs,
		What: fmt.Sprintf("%s of %s, decided again, is another one: %s", r.Fact.Type, strings.Clone(string(r.Fact.Scope)), what),
		Look: Show(r.Seq)})
}

// grantAgain judges one grant, and adds its draws from the rates of the scope.
func (l *Lines) grantAgain(r *events.Record, g *task.Grant, takes map[string][]limit.Rate) {
	under, turn, ok := l.log.Task(g.Task)
	switch {
	case !ok:
		l.granted(r, g.Task, 0, "there was no such task")
		return
	case g.Turn > turn:
		l.granted(r, g.Task, 0, fmt.Sprintf("no turn of the task had begun at %d", g.Turn))
		return
	}
	if wrong := l.counts(under, g, r, takes); wrong != "" {
		l.granted(r, g.Task, 0, wrong)
	}
}

// counts compares the counters of a grant with its task's: the task's own, and the rate of the
// queue.
func (l *Lines) counts(under Bounds, g *task.Grant, r *events.Record, takes map[string][]limit.Rate) (wrong string) {
	left := g.Limits
	for _, b := range under {
		name := l.terms.words.Text(b.counter)
		if len(left) == 0 || left[0] != name {
			return fmt.Sprintf("the task stands under %s, and it is admitted under %s", name, value.List(g.Limits))
		}
		left = left[1:]
		if how, ok := l.terms.rate(b); ok && limit.ScopeOf(name) == r.Fact.Scope {
			takes[name] = append(takes[name], how)
		}
	}
	if len(left) == 0 {
		return ""
	}
	of, _ := limit.QueueOf(left[0])
	q, forgotten := l.log.Queues.At(of, g.Rated)
	switch {
	case forgotten:
		l.book.Forgotten++
	case len(left) > 1 || q == nil || queue.RateOf(q).Counter() != left[0]:
		return fmt.Sprintf("it is admitted under %s, and no event at %d has set that", value.List(left), g.Rated)
	case limit.ScopeOf(left[0]) == r.Fact.Scope:
		takes[left[0]] = append(takes[left[0]], q.Rate)
	}
	return ""
}

// rateAgain judges what is left of a rate after some draws, and returns its state before.
func (l *Lines) rateAgain(r *events.Record, name string, left time.Time, takes []limit.Rate) (from time.Time) {
	b, at := l.bucket(name), r.Fact.At
	from = b.used
	before := append([]time.Time{b.used}, b.paused...)
	wrong := ""
	for i, used := range before {
		is := limit.Bucket(used)
		shut := time.Time{}
		for _, how := range takes {
			if opens := is.Opens(how); opens.After(at) && shut.IsZero() {
				shut = opens
			}
			is = is.Take(how, at)
		}
		switch {
		case shut.IsZero() && time.Time(is).Equal(left):
			wrong, from = "", used
		case slices.ContainsFunc(b.paused, left.Equal):
			wrong, from = "", left
		case i > 0:
			continue
		case !shut.IsZero():
			wrong = fmt.Sprintf("%d are admitted by %s at %s, and it opens at %s", len(takes), name, at.UTC().Format(time.RFC3339Nano), shut.UTC().Format(time.RFC3339Nano))
			continue
		default:
			wrong = fmt.Sprintf("%s is used up until %s, and should be until %s", name, left.UTC().Format(time.RFC3339Nano), time.Time(is).UTC().Format(time.RFC3339Nano))
			continue
		}
		break
	}
	if wrong != "" {
		l.granted(r, "", b.seq, wrong)
	}
	b.used, b.seq = left, r.Seq
	b.paused = slices.DeleteFunc(b.paused, func(p time.Time) bool { return !p.After(left) || !p.After(at) })
	return from
}
