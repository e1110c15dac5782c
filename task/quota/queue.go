package quota

import (
	"millrace/task/limit"
	"millrace/task/queue"
	"strings"
	"time"
)

// home returns the limiter's state of a queue, and makes one if there is none.
func (a *Limiter) home(name string) *queue.Queue {
	q := a.queues[name]
	if q == nil {
		q = &queue.Queue{Name: strings.Clone(name)}
		a.queues[q.Name] = q
	}
	return q
}

// Queue takes over the settings of a queue, unless the limiter knows newer ones. Waiting tasks are
// under the queue's new rate from then on, or under none.
func (a *Limiter) Queue(said queue.Queue) {
	q := a.home(said.Name)
	if said.Head <= q.Head {
		return
	}
	was := *q
	if *q = said; q.RateSince == was.RateSince {
		return
	}
	old := a.counters[queue.RateOf(&was).Counter()]
	if old != nil {
		old.kept = false
	}
	if q.Rate.Limit > 0 {
		c := a.counter(queue.RateOf(q).Counter())
		c.how, c.kept = q.Rate, true
	}
	for _, l := range a.lines {
		if l.queue == q {
			a.unplace(l)
			a.untap(l)
			a.tap(l)
			a.enter(l)
			a.place(l)
		}
	}
	for _, e := range a.entries { // these may have been reported before the rate
		if e.phase == holding && e.line.queue == q {
			a.offered(e)
		}
	}
	if old != nil && old.lines == 0 {
		a.forget(old)
	}
}

// Said is [Limiter.Queue] for a single fact.
func (a *Limiter) Said(name string, seq uint64, at time.Time, e queue.Event) {
	a.Queue(queue.Evolve(*a.home(name), seq, at, "", e))
}

// Ruled tells whether a queue has or had a rate.
func (a *Limiter) Ruled() bool {
	for _, q := range a.queues {
		if q.RateSince > 0 {
			return true
		}
	}
	return false
}

// tap adds the rate of its queue to a line, if there is one.
func (a *Limiter) tap(l *line) {
	if l.rated = l.queue.Rate.Limit > 0 && l.queue.Name != ""; !l.rated {
		return
	}
	name := queue.RateOf(l.queue).Counter()
	c := a.counter(name)
	c.how, c.kept = l.queue.Rate, true
	l.rates = append(l.rates, tap{c, l.queue.Rate})
	l.offered = a.counter(name + "/" + l.route)
	l.offered.max = l.queue.Rate.RunsAhead()
	for _, c := range []*counter{c, l.offered} {
		c.lines++
		c.waits += l.waiting.Len()
	}
}

// untap is the reverse of tap.
func (a *Limiter) untap(l *line) {
	if !l.rated {
		return
	}
	last := len(l.rates) - 1
	for _, c := range []*counter{l.rates[last].counter, l.offered} {
		c.waits -= l.waiting.Len()
		a.release(c)
	}
	l.rates, l.rated, l.offered = l.rates[:last], false, nil
}

// offered counts a task as admitted by its queue's rate and not started.
func (a *Limiter) offered(e *entry) {
	if c := e.line.offered; c != nil && !e.live && e.rated == e.line.queue.RateSince {
		c.holders[e.id] = e
	}
}

// started does so no more.
func (a *Limiter) started(e *entry) {
	if c := e.line.offered; c != nil && c.holders[e.id] != nil {
		delete(c.holders, e.id)
		a.wake(c)
	}
}

// hidden tells whether a counter is a former rate of a queue.
func (c *counter) hidden() bool {
	_, ofQueue := limit.QueueOf(c.name)
	return ofQueue && !c.kept
}
