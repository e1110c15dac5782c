package quota

import (
	"millrace/task"
	"millrace/task/limit"
	"millrace/task/value"
	"strings"
	"time"
)

// slot is a concurrency bound, with the settings of a line's tasks.
type slot struct {
	*counter
	max     int
	onLimit string
}

func (s slot) full() bool { return len(s.holders) >= s.max }

// tap is a rate, with the settings of a line's tasks.
type tap struct {
	*counter
	how limit.Rate
}

func (t tap) shut(now time.Time) bool { return t.bucket.Opens(t.how).After(now) }

// fund is a budget, with the settings of a line's tasks.
type fund struct {
	*counter
	how limit.Allowance
}

func (f fund) spent(now time.Time) bool { return f.how.Spent(f.tally.At(f.period, now), f.underway) }

// counter is one limit.
type counter struct {
	name    string
	scope   *scope
	holders map[task.ID]*entry
	bucket  limit.Bucket
	told    int        // how often its bucket was set from outside
	how     limit.Rate // as the latest task has it
	max     int
	// budget says that it is a budget. Its latest task allows allows.
	budget   bool
	period   limit.Period
	allows   limit.Allowance
	tally    limit.Tally
	underway limit.Underway
	rows     []*row
	one      row // the first of rows: few counters have more
	waits    int
	index    int // in opening, -1 if it is missing
	opens    time.Time
	lines    int
	kept     bool // it is the present rate of a queue
	// replacing are waiting cancel_old tasks, with the Max of each.
	replacing map[*entry]int
}

// row is a group of lines that rest at a counter with equal bounds there: if the counter has a
// place for any of them, then for the first.
type row struct {
	at     *counter
	max    int
	allows limit.Allowance
	how    limit.Rate
	lines  value.Heap[*line]
}

// row is the row in which a line rests at the counter.
func (c *counter) row(l *line) *row {
	r := row{at: c, lines: lines()}
	for _, s := range l.slots {
		if s.counter == c {
			r.max = s.max
		}
	}
	for _, f := range l.funds {
		if f.counter == c {
			r.allows = f.how
		}
	}
	for _, t := range l.rates {
		if t.counter == c {
			r.how = t.how
		}
	}
	for _, same := range c.rows {
		if same.max == r.max && same.allows == r.allows && same.how == r.how {
			return same
		}
	}
	into := &c.one
	if len(c.rows) > 0 {
		into = &row{}
	}
	*into = r
	c.rows = append(c.rows, into)
	return into
}

func (a *Limiter) counter(name string) *counter {
	c := a.counters[name]
	if c == nil {
		name = strings.Clone(name)
		c = &counter{name: name, scope: a.scope(limit.ScopeOf(name)), holders: map[task.ID]*entry{}, index: -1}
		c.period, c.budget = limit.PeriodOf(name)
		c.scope.uses++
		a.counters[name] = c
	}
	return c
}

// release forgets a counter that its last line has left, if none of it is used up.
func (a *Limiter) release(c *counter) {
	if c.lines--; c.lines == 0 && !c.kept && time.Time(c.bucket).IsZero() && c.tally == (limit.Tally{}) {
		a.forget(c)
	}
}

func (a *Limiter) forget(c *counter) {
	if c.index >= 0 {
		a.opening.Remove(c.index)
	}
	delete(a.counters, c.name)
	c.scope.uses--
}

// used tells whether part of a counter is used up, or it is the present rate of a queue.
func (c *counter) used(now time.Time) bool {
	return c.kept || time.Time(c.bucket).After(now) || c.tally != (limit.Tally{}) && c.tally.Blank(c.period).After(now)
}

// reserve sets aside the run time of n tasks of a line, or gives it back if n is negative.
func (f fund) reserve(n int) {
	if f.how.Reserve == 0 {
		f.underway.Open += n
	}
	f.underway.Reserved += time.Duration(n) * f.how.Reserve
}

// wake makes the best of the lines that rest at a counter ready to be examined.
func (a *Limiter) wake(c *counter) {
	if c.index >= 0 {
		a.opening.Remove(c.index)
	}
	a.rouse(c)
}

// rouse makes the first of each row at a counter ready to be examined.
func (a *Limiter) rouse(c *counter) {
	for _, r := range c.rows {
		if r.lines.Len() > 0 {
			a.get(r.lines.Pop())
		}
	}
}
