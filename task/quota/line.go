package quota

import (
	"fmt"
	"iter"
	"millrace/task/limit"
	"millrace/task/queue"
	"millrace/task/value"
	"strconv"
	"strings"
)

// line has the bounds of its tasks, because they may differ between tasks of the same counter.
type line struct {
	key     string
	slots   []slot
	funds   []fund
	rates   []tap
	waiting value.Heap[*entry]
	scopes  []*scope // the scopes on whose chains its admissions lie, in order
	rests   *row     // the row where it rests, possibly at a scope's gate; nil if it does not
	head    *entry   // its first entry when it was placed there
	index   int      // its index in ready or rests.lines
	inReady bool
	picky   bool // some of its slots do not let tasks wait
	members int  // entries that refer to it
	queue   *queue.Queue
	route   string // the route of its tasks' offers, without the priority
	rated   bool   // the last of rates is the queue's
	// offered holds the tasks that the queue's rate has admitted and that have not started; nil
	// without such a rate.
	offered *counter
}

func (l *line) first() *entry { return l.waiting.First() }

func (a *Limiter) lineOf(queue, route string, counters []limit.Counter) *line {
	key := lineKey(queue, route, counters)
	if l := a.lines[key]; l != nil {
		return l
	}
	l := &line{key: key, queue: a.home(queue), route: strings.Clone(route), waiting: entries(), index: -1}
	for _, of := range counters {
		c := a.counter(of.Name)
		c.lines++
		switch {
		case of.Max > 0:
			c.max = of.Max
			l.slots = append(l.slots, slot{c, of.Max, of.OnLimit})
			l.picky = l.picky || of.OnLimit != "" && of.OnLimit != limit.Wait
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

// lineKey identifies a line: the queue of its tasks, the route of their offers, the counters beside
// the queue's rate, and the task's bound in each.
func lineKey(queue, route string, counters []limit.Counter) string {
	b := make([]byte, 0, 64)
	b = append(append(append(append(b, queue...), 0), route...), 0)
	for _, c := range counters {
		b = append(append(b, c.Name...), 0)
		b = strconv.AppendInt(b, int64(c.Max), 10)
		b = append(append(b, c.OnLimit...), 0)
		if c.Allows != (limit.Allowance{}) {
			b = append(c.Allows.Append(b), 0)
		}
		if c.Rate.Limit > 0 {
			b = fmt.Appendf(b, "%d/%d/%d", c.Rate.Limit, c.Rate.Per, c.Rate.Burst)
			b = append(b, 0)
		}
	}
	return string(b)
}

// counters iterates over all counters of a line: concurrency first, then budgets, then rates.
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

// place moves a line to where it belongs after one of its tasks has come or gone. A line with a new
// first task is examined: it may precede lines that were woken for a place.
func (a *Limiter) place(l *line) {
	switch {
	case l.waiting.Len() == 0:
		a.unplace(l)
	case l.inReady:
		was := l.head
		l.head = l.first()
		a.ready.Fix(l.index)
		if was.before(l.head) {
			a.yield(l)
		}
	case l.rests != nil && l.first() == l.head:
	default:
		if l.rests != nil {
			l.rests.lines.Remove(l.index)
			l.rests = nil
		}
		a.get(l)
	}
}

// get makes an unplaced line ready to be examined.
func (a *Limiter) get(l *line) {
	l.rests, l.inReady, l.head = nil, true, l.first()
	a.ready.Push(l)
}

// yield wakes other lines in favour of which a woken line no longer goes first.
func (a *Limiter) yield(l *line) {
	for c := range l.counters() {
		a.rouse(c)
	}
}

func (a *Limiter) unplace(l *line) {
	switch {
	case l.rests != nil:
		l.rests.lines.Remove(l.index)
		l.rests = nil
	case l.inReady:
		a.ready.Remove(l.index)
		l.inReady = false
		a.yield(l)
	}
}
