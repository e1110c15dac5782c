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
		if c.lines > 0 || time.Time(c.bucket).After(now) {
			list = append(list, c.state(now, most))
		}
	}
	slices.SortFunc(list, func(x, y CounterState) int { return cmp.Compare(x.Name, y.Name) })
	return list
}

// Counter returns one of them; false if no task stands under it.
func (a *Limiter) Counter(name string, now time.Time, most int) (CounterState, bool) {
	c := a.counters[name]
	if c == nil {
		return CounterState{}, false
	}
	return c.state(now, most), true
}

func (c *counter) state(now time.Time, most int) CounterState {
	s := CounterState{Name: c.name, Max: c.max, InUse: len(c.holders), Waiting: c.waits}
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
	// Counters are those that it stands under, the one that keeps it waiting first.
	Counters []CounterState `json:"counters"`
}

// Standing tells where a task stands; false if it is not known here.
func (a *Limiter) Standing(id ID, now time.Time, most int) (Standing, bool) {
	e := a.entries[id]
	if e == nil {
		return Standing{}, false
	}
	s := Standing{Admitted: e.phase == holding}
	counters := e.line.counters()
	if e.phase == waiting {
		if r := e.line.rests; r != nil && r != counters[0] {
			slices.Reverse(counters)
		}
		for _, l := range a.lines {
			if l.slots != counters[0] && l.rate != counters[0] {
				continue
			}
			for _, other := range l.waiting.list {
				if other.before(e) {
					s.Ahead++
				}
			}
		}
	}
	for _, c := range counters {
		s.Counters = append(s.Counters, c.state(now, most))
	}
	return s, true
}
