package quota

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"millrace/task"
	"millrace/task/limit"
	"millrace/task/queue"
	"millrace/task/value"
)

// CounterState is a counter for display.
type CounterState struct {
	// Name is as in [limit.Counter].
	Name string `json:"name"`
	// Max is how many may be under way, by the latest task; 0 for a rate.
	Max int `json:"max,omitempty"`
	// InUse and Waiting count tasks.
	InUse   int `json:"in_use"`
	Waiting int `json:"waiting"`
	// Holders are some of the tasks under way, the oldest first.
	Holders []task.ID `json:"holders,omitempty"`
	// Rate is the state of a rate, with the settings of the latest task.
	Rate *RateState `json:"rate,omitempty"`
	// Budget is the state of a budget, with the settings of the latest task.
	Budget *limit.BudgetState `json:"budget,omitempty"`
	// Full, in a task's [Standing], says that the limit has no place for it now.
	Full bool `json:"full,omitempty"`
}

// RateState is a rate for display.
type RateState struct {
	// Limit is how many may start within Per, and Burst how many of these at once.
	Limit int            `json:"limit"`
	Per   value.Duration `json:"per"`
	Burst int            `json:"burst"`
	// Left is how many tasks may start now. Opens is when the next one may, if none may now.
	Left  int       `json:"left"`
	Opens time.Time `json:"opens,omitzero"`
}

// Counters lists the counters in use, by name, each with at most most of its holders.
func (a *Limiter) Counters(now time.Time, most int) []CounterState {
	list := make([]CounterState, 0, len(a.counters))
	for _, c := range a.counters {
		if (c.lines > 0 || c.used(now)) && !c.hidden() {
			list = append(list, c.state(now, most))
		}
	}
	slices.SortFunc(list, func(x, y CounterState) int { return cmp.Compare(x.Name, y.Name) })
	return list
}

// Counter returns one counter; false if it is not in use.
func (a *Limiter) Counter(name string, now time.Time, most int) (CounterState, bool) {
	if rated, ok := limit.QueueOf(name); ok {
		q := a.queues[rated]
		if q == nil {
			return CounterState{}, false
		}
		name = queue.RateOf(q).Counter()
	}
	c := a.counters[name]
	if c == nil {
		return CounterState{}, false
	}
	return c.state(now, most), true
}

// Told returns the counter with a name or, for "", all counters by their keys.
func (a *Limiter) Told(name string, now time.Time, holders int) []CounterState {
	if name != "" {
		c, ok := a.Counter(name, now, holders)
		if !ok {
			return nil
		}
		return []CounterState{c}
	}
	counters := a.Counters(now, holders)
	slices.SortFunc(counters, func(x, y CounterState) int {
		return cmp.Or(y.Waiting-x.Waiting, y.InUse-x.InUse, cmp.Compare(x.Name, y.Name)) // as their keys
	})
	return counters
}

// Key puts counters in order: those with the most waiting tasks come first, then those with the most
// tasks that hold them, then by name.
func (c *CounterState) Key() string {
	return fmt.Sprintf("%010d %010d %s", math.MaxInt32-c.Waiting, math.MaxInt32-c.InUse, c.Name)
}

func (c *counter) state(now time.Time, most int) CounterState {
	s := CounterState{Name: limit.Shown(c.name), Max: c.max, InUse: len(c.holders), Waiting: c.waits}
	if c.budget {
		s.Budget = c.allows.State(c.period, c.tally, c.underway, now)
	}
	if c.how.Limit > 0 {
		s.Rate = &RateState{
			Limit: c.how.Limit,
			Per:   value.Duration(c.how.Within()),
			Burst: max(c.how.Burst, 1),
			Left:  c.bucket.Left(c.how, now),
		}
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

// Standing is the position of a task before its limits.
type Standing struct {
	// Admitted says that it has its places.
	Admitted bool `json:"admitted"`
	// Ahead is how many tasks of the same counter precede it.
	Ahead int `json:"ahead"`
	// Counters are the task's counters with its own bounds; those without a place for it come
	// first.
	Counters []CounterState `json:"counters"`
}

// Standing returns the position of a task; false if the limiter does not know it.
func (a *Limiter) Standing(id task.ID, now time.Time, most int) (Standing, bool) {
	e := a.entries[id]
	if e == nil {
		return Standing{}, false
	}
	s := Standing{Admitted: e.phase == holding}
	var first *counter
	if r := e.line.rests; r != nil && r.at.scope != nil { // a gate is not about places
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
		for _, of := range e.line.funds {
			if of.counter == c {
				is.Budget = of.how.State(c.period, c.tally, c.underway, now)
			}
		}
		is.Full = e.phase == waiting && e.line.blocked(c, now)
		s.Counters = append(s.Counters, is)
	}
	if first == nil { // it only waits for the next decision
		return s, true
	}
	name := limit.Shown(first.name)
	slices.SortStableFunc(s.Counters, func(x, y CounterState) int {
		return cmp.Or(truth(y.Full)-truth(x.Full), truth(y.Name == name)-truth(x.Name == name))
	})
	if e.phase == waiting {
		s.Ahead = a.ahead(e, first)
	}
	return s, true
}

// ahead is how many tasks that wait for a counter precede a task.
func (a *Limiter) ahead(e *entry, of *counter) (n int) {
	for _, l := range a.lines {
		if !l.under(of) {
			continue
		}
		for _, other := range l.waiting.All() {
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
