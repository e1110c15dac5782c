package limit

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"millrace/task/value"
)

// Budget bounds how many attempts may start in a day, or how long they may run in total. Usage is
// counted from the starts and ends of attempts. For a decision, an admitted task that has not
// started counts as a start, and a running one counts for the longest time that it may run.
// Attempts therefore exceed the budget by one of them at most, if none runs longer than its run
// timeout or, without one, than the attempt that ended last.
type Budget struct {
	// Starts is how many attempts may start; every attempt of a task counts. 0 for no bound.
	Starts int `json:"starts,omitempty"`
	// Run is how long attempts may run in total. 0 for no bound.
	Run value.Duration `json:"run,omitempty"`
	// Per is the period of both: [PerDay], the default, [PerWeek] or [PerMonth].
	Per string `json:"per,omitempty" redact:"word" words:"day,week,month"`
	// Timezone is the zone in which days begin. Default UTC.
	Timezone string `json:"timezone,omitempty" redact:"keep"`
	// Key splits the budget like that of [Concurrency].
	Key string `json:"key,omitempty" redact:"template"`
}

// The periods of budgets. A week begins on Monday.
const (
	PerDay   = "day"
	PerWeek  = "week"
	PerMonth = "month"
)

// Pers lists the values of [Budget.Per].
var Pers = value.WordsOf[Budget]("per")

// Validate refuses an invalid budget, in a field of this name.
func (b Budget) Validate(field string) error {
	switch {
	case b.Starts < 0:
		return fmt.Errorf("%s.starts is %d, want 1 or more", field, b.Starts)
	case b.Run < 0:
		return fmt.Errorf("%s.run is %v, want more than 0", field, b.Run)
	case b.Starts == 0 && b.Run == 0:
		return fmt.Errorf("%s.starts and %s.run are missing: how many may start, or how long they may run", field, field)
	case b.Per != "" && !slices.Contains(Pers, b.Per):
		return fmt.Errorf("%s.per is %q, want one of %s", field, b.Per, value.List(Pers))
	}
	if _, err := zoneNamed(b.Timezone); err != nil {
		return fmt.Errorf("%s.timezone is %q, want a zone such as Europe/Berlin: %w", field, b.Timezone, err)
	}
	return ValidKey(field+".key", b.Key)
}

func (b Budget) key() string { return b.Key }

// Words describes in words what the budget allows.
func (b Budget) Words() string {
	var what []string
	if b.Starts > 0 {
		what = append(what, fmt.Sprintf("%d starts", b.Starts))
	}
	if b.Run > 0 {
		what = append(what, fmt.Sprintf("%v of run time", b.Run))
	}
	text := fmt.Sprintf("at most %s a %s (%s)", strings.Join(what, " and "), cmp.Or(b.Per, PerDay), cmp.Or(b.Timezone, "UTC"))
	if b.Key != "" {
		text += " with the key " + b.Key
	}
	return text
}

// zones caches time zones by name: reading one takes as long as admitting a task.
var zones sync.Map

func zoneNamed(name string) (*time.Location, error) {
	if zone, ok := zones.Load(name); ok {
		return zone.(*time.Location), nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, cmp.Or(err, fmt.Errorf("it is another one on every machine"))
	}
	zones.Store(name, zone)
	return zone, nil
}

// budgetPrefix begins the names of budgets as counters; the period and a colon follow. All tasks
// with the same counter name thus use the same calendar, and the name alone is enough to count.
const budgetPrefix = "budget:"

// Kind is the beginning of the budget's counter name: "budget:day:", or
// "budget:week.Europe.Berlin:".
func (b Budget) Kind() string {
	text := budgetPrefix + cmp.Or(b.Per, PerDay)
	if b.Timezone != "" && b.Timezone != "UTC" {
		text += "." + strings.ReplaceAll(b.Timezone, "/", ".")
	}
	return text + ":"
}

// Period is the division of time for a budget.
type Period struct {
	per  string
	zone *time.Location
}

// PeriodOf returns the period of a counter, by its name; false if it is no budget. An unknown zone
// counts as UTC; no job may name one.
func PeriodOf(counter string) (Period, bool) {
	rest, ok := strings.CutPrefix(counter, budgetPrefix)
	if !ok {
		return Period{}, false
	}
	text, _, _ := strings.Cut(rest, ":")
	per, name, _ := strings.Cut(text, ".")
	zone, err := zoneNamed(strings.ReplaceAll(name, ".", "/"))
	if err != nil {
		zone = time.UTC
	}
	return Period{per, zone}, true
}

// Bounds returns when the day, week or month of a moment began, and when the next one begins.
func (p Period) Bounds(at time.Time) (from, to time.Time) {
	y, m, d := at.In(p.zone).Date()
	switch p.per {
	case PerMonth:
		return midnight(y, m, 1, p.zone), midnight(y, m+1, 1, p.zone)
	case PerWeek:
		monday := d - (int(at.In(p.zone).Weekday())+6)%7
		return midnight(y, m, monday, p.zone), midnight(y, m, monday+7, p.zone)
	}
	return midnight(y, m, d, p.zone), midnight(y, m, d+1, p.zone)
}

// midnight is the beginning of a day: the first moment with its date, because clocks may change at
// midnight.
func midnight(y int, m time.Month, d int, zone *time.Location) time.Time {
	t := time.Date(y, m, d, 0, 0, 0, 0, zone)
	date := time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	_, offset := t.Zone()
	if t.Day() != date.Day() { // the clock skips midnight, and this is before that
		_, t = t.ZoneBounds()
		return t
	}
	changed, _ := t.ZoneBounds()
	_, before := changed.Add(-time.Second).Zone()
	if first := t.Add(time.Duration(offset-before) * time.Second); !changed.IsZero() && first.Before(t) && first.In(zone).Day() == date.Day() {
		return first // there are two midnights
	}
	return t
}

// Tally is the usage of a budget in the latest known period. The zero value is no usage.
type Tally struct {
	// Since is when the period began.
	Since time.Time `json:"since,omitzero"`
	// Starts is how many attempts have started. Ran is how long the ended attempts ran.
	Starts int           `json:"starts,omitempty"`
	Ran    time.Duration `json:"ran,omitempty"`
	// Last is how long the attempt that ended last ran, in this period or the one before; 0 if
	// there was none.
	Last time.Duration `json:"last,omitempty"`
}

// At returns the tally in the period of a moment; a new period begins without usage. A moment
// before the tally's period counts as part of it.
func (y Tally) At(p Period, now time.Time) Tally {
	from, _ := p.Bounds(now)
	if !from.After(y.Since) {
		return y
	}
	is := Tally{Since: from}
	if _, next := p.Bounds(y.Since); next.Equal(from) {
		is.Last = y.Last
	}
	return is
}

// Start is the tally after the start of an attempt.
func (y Tally) Start(p Period, at time.Time) Tally {
	if at.Before(y.Since) {
		return y
	}
	is := y.At(p, at)
	is.Starts++
	return is
}

// Run returns the tally after an attempt has ended. Each period counts the part of the run within
// it.
func (y Tally) Run(p Period, from, to time.Time) Tally {
	if to.Before(y.Since) {
		return y
	}
	is := y.At(p, to)
	is.Last = max(to.Sub(from), 0)
	is.Ran += max(to.Sub(value.Later(from, is.Since)), 0)
	return is
}

// Blank is when the tally stops mattering.
func (y Tally) Blank(p Period) time.Time {
	_, next := p.Bounds(y.Since)
	_, after := p.Bounds(next)
	return after
}

// Tallies are the tallies of budgets, by counter.
type Tallies map[string]Tally

// Spend adds a shift of attempts of a task with some counters.
func (y Tallies) Spend(counters []Counter, s Shift) {
	for _, c := range counters {
		if p, ok := PeriodOf(c.Name); ok {
			y[c.Name] = y[c.Name].Spend(p, s)
		}
	}
}

// Allowance is the amount that a budget allows, for one task.
type Allowance struct {
	Starts int           `json:"starts,omitempty"`
	Run    time.Duration `json:"run,omitempty"`
	// Reserve is how much the task counts while it is under way: its run timeout, 0 if it has none.
	Reserve time.Duration `json:"reserve,omitempty"`
}

// Allowance returns what the budget allows to tasks with a run timeout.
func (b Budget) Allowance(timeout value.Duration) Allowance {
	return Allowance{Starts: b.Starts, Run: b.Run.Std(), Reserve: timeout.Std()}
}

// Append writes the allowance in a short form that no other allowance has.
func (a Allowance) Append(to []byte) []byte {
	to = append(strconv.AppendInt(to, int64(a.Starts), 10), '/')
	to = append(strconv.AppendInt(to, int64(a.Run), 10), '/')
	return strconv.AppendInt(to, int64(a.Reserve), 10)
}

// Tighter returns what two budgets together allow.
func (a Allowance) Tighter(b Allowance) Allowance {
	return Allowance{Starts: least(a.Starts, b.Starts), Run: least(a.Run, b.Run), Reserve: a.Reserve}
}

// least returns the smaller of two bounds; 0 means no bound.
func least[T cmp.Ordered](a, b T) T {
	var none T
	if a == none || b != none && b < a {
		return b
	}
	return a
}

// Underway is what is admitted under a budget and not yet in its tally.
type Underway struct {
	// Starts counts the tasks that have not started.
	Starts int
	// Reserved is the sum of the run timeouts of the tasks under way, and Open the number of those
	// without one.
	Reserved time.Duration
	Open     int
}

// Reserve is how much run time is set aside for the tasks under way, given the present tally. A
// task without a run timeout counts as long as the last attempt; false if there was none, so that
// the time is unknown.
func (u Underway) Reserve(y Tally) (time.Duration, bool) {
	return u.Reserved + time.Duration(u.Open)*y.Last, u.Open == 0 || y.Last > 0
}

// Spent tells whether a budget has nothing left for another task, given the present tally. If the
// duration of tasks is unknown, only one may run at first, and it reserves all of the run time.
func (a Allowance) Spent(y Tally, u Underway) bool {
	if a.Starts > 0 && y.Starts+u.Starts >= a.Starts {
		return true
	}
	reserve, known := u.Reserve(y)
	return a.Run > 0 && (!known || y.Ran+reserve >= a.Run)
}

// Shift is a fact by which an attempt of a task ends, starts, or takes over from another. The zero
// value is none of these.
type Shift struct {
	At           time.Time
	Ended, Began bool
	From         time.Time // when the ended attempt had started
}

// None tells whether no attempt ended or began.
func (s Shift) None() bool { return !s.Ended && !s.Began }

// Append writes the shift in a short form for files of our own, which [ReadShift] reads.
func (s Shift) Append(to []byte) []byte {
	var is byte
	if s.Ended {
		is |= 1
	}
	if s.Began {
		is |= 2
	}
	to = binary.AppendVarint(append(to, is), s.At.UnixNano())
	if s.Ended {
		to = binary.AppendVarint(to, s.From.UnixNano())
	}
	return to
}

// ReadShift reads what [Shift.Append] has written; false if it is something else.
func ReadShift(from []byte) (s Shift, ok bool) {
	if len(from) == 0 {
		return s, false
	}
	s.Ended, s.Began = from[0]&1 != 0, from[0]&2 != 0
	at, n := binary.Varint(from[1:])
	if n <= 0 {
		return s, false
	}
	s.At = time.Unix(0, at)
	if s.Ended {
		from = from[1+n:]
		at, n = binary.Varint(from)
		s.From = time.Unix(0, at)
	}
	return s, n > 0
}

// Spend returns the tally after a shift.
func (y Tally) Spend(p Period, s Shift) Tally {
	if s.Ended {
		y = y.Run(p, s.From, s.At)
	}
	if s.Began {
		y = y.Start(p, s.At)
	}
	return y
}
