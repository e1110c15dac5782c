package task

import "time"

// home is what is known of a queue.
func (a *Limiter) home(name string) *Queue {
	q := a.queues[name]
	if q == nil {
		q = &Queue{Name: name}
		a.queues[name] = q
	}
	return q
}

// Queue takes over what operators have said about a queue, unless it knows of more. What waits is
// under the queue's new rate from then on, and under none if there is none.
func (a *Limiter) Queue(said Queue) {
	q := a.home(said.Name)
	if said.Head <= q.Head {
		return
	}
	was := *q
	if *q = said; q.RateSince == was.RateSince {
		return
	}
	old := a.counters[RateOf(&was).limit()]
	if old != nil {
		old.kept = false
	}
	if q.Rate.Limit > 0 {
		c := a.counter(RateOf(q).limit())
		c.how, c.kept = q.Rate, true
	}
	for _, l := range a.lines {
		if l.queue == q {
			a.unplace(l)
			a.untap(l)
			a.tap(l)
			a.place(l)
		}
	}
	if old != nil && old.lines == 0 {
		a.forget(old)
	}
}

// Said is [Limiter.Queue] for one fact.
func (a *Limiter) Said(name string, seq uint64, at time.Time, e QueueEvent) {
	a.Queue(EvolveQueue(*a.home(name), seq, at, "", e))
}

// tap puts a line under the rate of its queue, if that has one.
func (a *Limiter) tap(l *line) {
	if l.rated = l.queue.Rate.Limit > 0 && l.queue.Name != ""; !l.rated {
		return
	}
	c := a.counter(RateOf(l.queue).limit())
	c.how, c.kept = l.queue.Rate, true
	c.lines++
	c.waits += len(l.waiting.list)
	l.rates = append(l.rates, tap{c, l.queue.Rate})
}

// untap is the reverse of tap.
func (a *Limiter) untap(l *line) {
	if !l.rated {
		return
	}
	last := len(l.rates) - 1
	c := l.rates[last].counter
	c.waits -= len(l.waiting.list)
	l.rates, l.rated = l.rates[:last], false
	a.release(c)
}

// hidden tells whether a counter is a rate that a queue had once.
func (c *counter) hidden() bool {
	_, ofQueue := QueueOfLimit(c.name)
	return ofQueue && !c.kept
}
