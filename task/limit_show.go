package task

import (
	"cmp"
	"slices"
	"time"
)

// CounterState is a counter as people look at it.
type CounterState struct {
	// Name is as in [Counter].
	Name string `json:"name"`
	// Max is how many may be under way, as the latest task has it; 0 for a rate.
	Max int `json:"max,omitempty"`
	// InUse and Waiting count tasks.
	InUse   int `json:"in_use"`
	Waiting int `json:"waiting"`
	// Holders are some of those under way, the oldest first.
	Holders []ID `json:"holders,omitempty"`
	// Rate is the rate of a counter that has one, as the latest task has it.
	Rate *RateState `json:"rate,omitempty"`
	// Full tells, where a task stands, that the limit has no place for it now.
	Full bool `json:"full,omitempty"`
}

// RateState is a rate as people look at it.
type RateState struct {
	Limit int      `json:"limit"`
	Per   Duration `json:"per"`
	Burst int      `json:"burst"`
	// Left is how many may start now, and Opens when the next one may if none may.
	Left  int       `json:"left"`
	Opens time.Time `json:"opens,omitzero"`
}

// Counters lists the counters that tasks stand under, by name; of the holders at most so many.
func (a *Limiter) Counters(now time.Time, most int) []CounterState {
	list := make([]CounterState, 0, len(a.counters))
	for _, c := range a.counters {
		if (c.lines > 0 || c.kept || time.Time(c.bucket).After(now)) && !c.hidden() {
			list = append(list, c.state(now, most))
		}
	}
	slices.SortFunc(list, func(x, y CounterState) int { return cmp.Compare(x.Name, y.Name) })
	return list
}

// Counter returns one of them; false if no task stands under it.
func (a *Limiter) Counter(name string, now time.Time, most int) (CounterState, bool) {
	if queue, ok := QueueOfLimit(name); ok {
		q := a.queues[queue]
		if q == nil {
			return CounterState{}, false
		}
		name = RateOf(q).Counter()
	}
	c := a.counters[name]
	if c == nil {
		return CounterState{}, false
	}
	return c.state(now, most), true
}

func (c *counter) state(now time.Time, most int) CounterState {
	s := CounterState{Name: shownLimit(c.name), Max: c.max, InUse: len(c.holders), Waiting: c.waits}
	if c.how.Limit > 0 {
		s.Rate = &RateState{Limit: c.how.Limit, Per: Duration(c.how.per()), Burst: max(c.how.Burst, 1), Left: c.bucket.Left(c.how, now)}
		if opens := c.bucket.Opens(c.how); opens.After(now) {
			s.Rate.Opens = opens
		}
	}
	if most == 0 {
		return s
	}
	for id := range c.holders {
		s.Holders = append(s.Holders, id)
	}
	slices.Sort(s.Holders)
	s.Holders = s.Holders[:min(len(s.Holders), most)]
	return s
}

// Standing is where a task stands before its limits.
type Standing struct {
	// Admitted is whether it has its places.
	Admitted bool `json:"admitted"`
	// Ahead is how many of the same counter go before it.
	Ahead int `json:"ahead"`
	// Counters are those that it stands under, as it is bound by them: those that have no place
	// for it first.
	Counters []CounterState `json:"counters"`
}

// Standing tells where a task stands; false if it is not known here.
func (a *Limiter) Standing(id ID, now time.Time, most int) (Standing, bool) {
	e := a.entries[id]
	if e == nil {
		return Standing{}, false
	}
	s := Standing{Admitted: e.phase == holding}
	var first *counter
	if r := e.line.rests; r != nil && r.at.scope != nil { // a gate says nothing about a place
		first = r.at
	}
	for c := range e.line.counters() {
		if c == e.line.offered && !e.line.waitsForStarts() {
			continue
		}
		if first == nil {
			first = c
		}
		is := c.state(now, most)
		for _, of := range e.line.slots {
			if of.counter == c {
				is.Max = of.max
			}
		}
		is.Full = e.phase == waiting && e.line.blocked(c, now)
		s.Counters = append(s.Counters, is)
	}
	if first == nil { // it waits for nothing but the next admission
		return s, true
	}
	name := shownLimit(first.name)
	slices.SortStableFunc(s.Counters, func(x, y CounterState) int {
		return cmp.Or(truth(y.Full)-truth(x.Full), truth(y.Name == name)-truth(x.Name == name))
	})
	if e.phase == waiting {
		s.Ahead = a.ahead(e, first)
	}
	return s, true
}

// ahead is how many wait for a counter and go before a task.
func (a *Limiter) ahead(e *entry, of *counter) (n int) {
	for _, l := range a.lines {
		if !l.under(of) {
			continue
		}
		for _, other := range l.waiting.list {
			if other.before(e) {
				n++
			}
		}
	}
	return n
}

func (l *line) under(of *counter) bool {
	for c := range l.counters() {
		if c == of {
			return true
		}
	}
	return false
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}
