package limit

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

func clockTime(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// Days, weeks and months begin at midnight of their zone, and have the length of its clocks.
func TestPeriods(t *testing.T) {
	for name, c := range map[string]struct{ counter, at, from, to string }{
		"a day":                           {"budget:day:j", "2026-11-23T10:00:00Z", "2026-11-23T00:00:00Z", "2026-11-24T00:00:00Z"},
		"its first moment":                {"budget:day:j", "2026-11-23T00:00:00Z", "2026-11-23T00:00:00Z", "2026-11-24T00:00:00Z"},
		"a week":                          {"budget:week:j", "2026-11-22T23:00:00Z", "2026-11-16T00:00:00Z", "2026-11-23T00:00:00Z"},
		"a week on Monday":                {"budget:week:j", "2026-11-23T00:00:00Z", "2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z"},
		"a month":                         {"budget:month:j", "2026-12-31T23:59:59Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"},
		"a day elsewhere":                 {"budget:day.Asia.Tokyo:j", "2026-11-23T16:00:00Z", "2026-11-23T15:00:00Z", "2026-11-24T15:00:00Z"},
		"a day of 23 hours":               {"budget:day.Europe.Berlin:j", "2026-03-29T12:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"},
		"a day of 25 hours":               {"budget:day.Europe.Berlin:j", "2026-10-25T12:00:00Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"},
		"a week with a change":            {"budget:week.Europe.Berlin:j", "2026-03-27T12:00:00Z", "2026-03-22T23:00:00Z", "2026-03-29T22:00:00Z"},
		"clocks go over midnight":         {"budget:day.America.Sao_Paulo:j", "2018-11-04T12:00:00Z", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"},
		"the day before that":             {"budget:day.America.Sao_Paulo:j", "2018-11-04T02:59:59Z", "2018-11-03T03:00:00Z", "2018-11-04T03:00:00Z"},
		"clocks go back to midnight":      {"budget:day.America.Havana:j", "2025-11-02T12:00:00Z", "2025-11-02T04:00:00Z", "2025-11-03T05:00:00Z"},
		"in the first of two midnights":   {"budget:day.America.Havana:j", "2025-11-02T04:30:00Z", "2025-11-02T04:00:00Z", "2025-11-03T05:00:00Z"},
		"clocks go back before midnight":  {"budget:day.America.Sao_Paulo:j", "2018-02-18T02:30:00Z", "2018-02-17T02:00:00Z", "2018-02-18T03:00:00Z"},
		"a zone that is not there is UTC": {"budget:day.Nowhere.At_All:j", "2026-11-23T10:00:00Z", "2026-11-23T00:00:00Z", "2026-11-24T00:00:00Z"},
		"three parts":                     {"budget:day.America.Argentina.Salta:j", "2026-11-23T10:00:00Z", "2026-11-23T03:00:00Z", "2026-11-24T03:00:00Z"},
	} {
		p, ok := PeriodOf(c.counter)
		from, to := p.Bounds(clockTime(t, c.at))
		if got := from.UTC().Format(time.RFC3339) + " " + to.UTC().Format(time.RFC3339); !ok || got != c.from+" "+c.to {
			t.Errorf("%s: %s is in %s, want %s %s", name, c.at, got, c.from, c.to)
		}
	}
	if _, ok := PeriodOf("rate:budget"); ok {
		t.Error("a rate is a budget")
	}
}

// Usage follows from admissions and ends in any order, and only the latest period counts.
func TestTally(t *testing.T) {
	p, _ := PeriodOf("budget:day:j")
	for name, c := range map[string]struct {
		facts string // s is a start, a number is that many hours of a run that ends then
		now   string
		want  string
	}{
		"nothing":                               {"", "23 12", "0 0s last 0s"},
		"starts":                                {"23 01 s, 23 02 s", "23 12", "2 0s last 0s"},
		"on another day":                        {"22 01 s, 23 02 s, 23 03 s", "23 12", "2 0s last 0s"},
		"no day later":                          {"23 01 s", "24 00", "0 0s last 0s"},
		"one that comes late":                   {"23 01 s, 22 23 s", "23 12", "1 0s last 0s"},
		"runs":                                  {"23 02 1, 23 05 2", "23 12", "0 3h0m0s last 2h0m0s"},
		"one that began before":                 {"23 02 3", "23 12", "0 2h0m0s last 3h0m0s"},
		"the last one is known a day later":     {"23 02 1", "24 12", "0 0s last 1h0m0s"},
		"and while others start":                {"23 02 1, 24 01 s", "24 12", "1 0s last 1h0m0s"},
		"but not for two":                       {"23 02 1", "25 12", "0 0s last 0s"},
		"it ends when the next day has begun":   {"24 01 s, 23 23 5", "24 12", "1 0s last 0s"},
		"a look from before is one of that day": {"23 01 s", "22 12", "1 0s last 0s"},
	} {
		at := func(text string) time.Time {
			return clockTime(t, "2026-11-"+strings.Replace(text, " ", "T", 1)+":00:00Z")
		}
		var y Tally
		for _, fact := range strings.Split(c.facts, ", ") {
			switch {
			case fact == "":
			case strings.HasSuffix(fact, "s"):
				y = y.Start(p, at(fact[:5]))
			default:
				to := at(fact[:5])
				y = y.Run(p, to.Add(-time.Duration(fact[6]-'0')*time.Hour), to)
			}
		}
		is := y.At(p, at(c.now))
		if got := fmt.Sprint(is.Starts, " ", is.Ran, " last ", is.Last); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if blank := y.Blank(p); y != (Tally{}) && y.At(p, blank) != (Tally{Since: blank}) {
			t.Errorf("%s: at %v, when nothing counts any more, it is %+v", name, blank, y.At(p, blank))
		}
	}
}

// Usage and tasks under way leave some of the budget, or none.
func TestSpent(t *testing.T) {
	const h = time.Hour
	for name, c := range map[string]struct {
		allows Allowance
		tally  Tally
		under  Underway
		want   bool
	}{
		"no start yet":                      {Allowance{Starts: 2}, Tally{}, Underway{}, false},
		"one is left":                       {Allowance{Starts: 2}, Tally{Starts: 1}, Underway{}, false},
		"it is on its way":                  {Allowance{Starts: 2}, Tally{Starts: 1}, Underway{Starts: 1}, true},
		"all have started":                  {Allowance{Starts: 2}, Tally{Starts: 2}, Underway{}, true},
		"who runs counts for no more":       {Allowance{Starts: 2}, Tally{Starts: 1}, Underway{Open: 1}, false},
		"nothing ran":                       {Allowance{Run: 8 * h}, Tally{}, Underway{}, false},
		"something is left":                 {Allowance{Run: 8 * h}, Tally{Ran: 8*h - 1}, Underway{}, false},
		"nothing is":                        {Allowance{Run: 8 * h}, Tally{Ran: 8 * h}, Underway{}, true},
		"what runs may take the rest":       {Allowance{Run: 8 * h}, Tally{Ran: 6 * h}, Underway{Reserved: 2 * h}, true},
		"or leave some":                     {Allowance{Run: 8 * h}, Tally{Ran: 5 * h}, Underway{Reserved: 2 * h}, false},
		"by the one that ended last":        {Allowance{Run: 8 * h}, Tally{Ran: 5 * h, Last: h}, Underway{Open: 3}, true},
		"which leaves some":                 {Allowance{Run: 8 * h}, Tally{Ran: 5 * h, Last: h}, Underway{Open: 2}, false},
		"nobody knows how long the first":   {Allowance{Run: 8 * h}, Tally{}, Underway{Open: 1}, true},
		"the timeout of one that runs says": {Allowance{Run: 8 * h}, Tally{}, Underway{Reserved: h}, false},
		"either bound":                      {Allowance{Run: 8 * h, Starts: 1}, Tally{Starts: 1}, Underway{}, true},
	} {
		if got := c.allows.Spent(c.tally, c.under); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}

// A shift is read as it was written, and what is cut off is none.
func TestShiftIsReadAgain(t *testing.T) {
	noon := time.Unix(0, clockTime(t, "2026-11-23T12:00:00Z").UnixNano())
	for name, s := range map[string]Shift{
		"a start":    {At: noon, Began: true},
		"an end":     {At: noon, Ended: true, From: noon.Add(-time.Hour)},
		"a takeover": {At: noon, Ended: true, Began: true, From: noon.Add(-time.Nanosecond)},
	} {
		text := s.Append(nil)
		if is, ok := ReadShift(text); !ok || is != s {
			t.Errorf("%s: read %+v %v, want %+v", name, is, ok, s)
		}
		for n := range text {
			if is, ok := ReadShift(text[:n]); ok {
				t.Errorf("%s: %d of %d bytes are read as %+v", name, n, len(text), is)
			}
		}
	}
}

// An amount that is added to an allowance tells it from others, and another budget without that
// amount does not remove it.
func TestEachAmountCounts(t *testing.T) {
	none := string(Allowance{}.Append(nil))
	for i := range reflect.TypeFor[Allowance]().NumField() {
		var a Allowance
		f := reflect.ValueOf(&a).Elem().Field(i)
		f.SetInt(7)
		if text := string(a.Append(nil)); text == none {
			t.Errorf("%+v is written as %q, like none", a, text)
		}
		if both := a.Tighter(Allowance{}); both != a {
			t.Errorf("%+v and no bound allow %+v", a, both)
		}
	}
}
