package quota

import (
	"container/heap"
	"fmt"
	"iter"
	"millrace/task/limit"
	"millrace/task/queue"
	"strconv"
	"strings"
)

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
	queue   *queue.Queue
	route   string // where its tasks are offered, but for their priority
	rated   bool   // the last of rates is that of the queue
	// offered holds those that the rate of the queue has admitted and that have not started; nil without one.
	offered *counter
}

func (l *line) first() *entry { return l.waiting.list[0] }

func (a *Limiter) lineOf(queue, route string, counters []limit.Counter) *line {
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

// lineKey says of which queue the tasks of a line are, where they are offered, which counters the line has
// besides the rate of the queue, and how they are bound by each.
func lineKey(queue, route string, counters []limit.Counter) string {
	b := make([]byte, 0, 64)
	b = append(append(append(append(b, queue...), 0), route...), 0)
	for _, c := range counters {
		b = append(append(b, c.Name...), 0)
		b = strconv.AppendInt(b, int64(c.Max), 10)
		b = append(append(b, c.OnLimit...), 0)
		if c.Allows != (limit.Allowance{}) {
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
