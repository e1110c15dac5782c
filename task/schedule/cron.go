package schedule

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"math/bits"
	"strings"
	"time"

	"github.com/netresearch/go-cron"
)

// cronFields are an expression as sets: bit n stands for the value n. They match wall times; which
// instant a wall time means is decided elsewhere.
type cronFields struct {
	second, minute, hour, dom, month, dow uint64
	lasts                                 []cron.DomConstraint
	nths                                  []cron.DowConstraint
	anyHour                               bool
	days                                  dayRule
}

// star is the bit with which the parser marks an open field.
const star = 1 << 63

var fieldNames = []string{"second", "minute", "hour", "day of month", "month", "day of week"}

const cronOptions = cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow |
	cron.Descriptor | cron.Hash | cron.Extended

// parseCron parses an expression. H stands for values derived from name.
func parseCron(expr, name string) (cronFields, error) {
	expr = strings.TrimSpace(expr)
	switch {
	case strings.Contains(expr, "TZ="):
		return cronFields{}, fmt.Errorf("cron is %q: the zone belongs to timezone", expr)
	case strings.HasPrefix(strings.ToLower(expr), "@every"):
		return cronFields{}, fmt.Errorf("cron is %q: an interval belongs to every", expr)
	case strings.EqualFold(expr, "@reboot"):
		return cronFields{}, fmt.Errorf("cron is %q, and no schedule begins with a machine: let its init system run `millrace run JOB`, as a systemd unit with WantedBy=multi-user.target does", expr)
	}
	if fields := strings.Fields(expr); !strings.HasPrefix(expr, "@") && len(fields) != 5 && len(fields) != 6 {
		return cronFields{}, fmt.Errorf("cron is %q, with %d fields; want 5 (minute hour day-of-month month day-of-week), 6 with seconds first, or a descriptor such as @daily", expr, len(fields))
	}
	plain := spelled(expr)
	s, err := parseSpec(plain, name)
	if err != nil {
		return cronFields{}, blame(plain, name, err)
	}
	return cronFields{
		second: s.Second, minute: s.Minute, hour: s.Hour, dom: s.Dom, month: s.Month, dow: s.Dow,
		lasts: s.DomConstraints, nths: s.DowConstraints,
		anyHour: s.Hour&star != 0, days: dayRuleOf(expr, s),
	}, nil
}

// dayRule says how the two fields for days go together.
type dayRule struct {
	// both tells that a day must match both fields, not only one of them.
	both bool
	// given tells that both restrict the days; star is the first that begins with * nevertheless.
	given bool
	star  string
	// wasBoth is both by the rule before [DaysAsCron], for which only a bare * left a field open.
	wasBoth bool
}

// dayRuleOf returns the rule of an expression. As in the cron of Vixie and those that follow it,
// both fields must match if either begins with "*".
func dayRuleOf(expr string, s *cron.SpecSchedule) dayRule {
	open := s.Dom&star != 0 || s.Dow&star != 0
	fields := strings.Fields(expr)
	if len(fields) < 5 { // a descriptor
		return dayRule{both: open, wasBoth: open}
	}
	n := len(fields)
	r := dayRule{wasBoth: open, given: !unbound(fields[n-3]) && !unbound(fields[n-1])}
	for _, f := range []string{fields[n-3], fields[n-1]} {
		if strings.HasPrefix(f, "*") || strings.HasPrefix(f, "?") {
			r.both = true
			r.star = cmp.Or(r.star, f)
		}
	}
	return r
}

// unbound tells whether a field leaves out no day.
func unbound(field string) bool {
	field = strings.TrimSuffix(field, "/1")
	return field == "*" || field == "?"
}

func parseSpec(expr, name string) (*cron.SpecSchedule, error) {
	// The parser's own hash barely distinguishes names that differ only at their ends.
	key := fmt.Sprintf("%x", sha256.Sum256([]byte(name)))
	s, err := cron.MustNewParser(cronOptions).ParseWithHashKey(expr, key)
	if err != nil {
		return nil, err
	}
	spec, ok := s.(*cron.SpecSchedule)
	if !ok {
		return nil, fmt.Errorf("%q is no time of a calendar", expr)
	}
	return spec, nil
}

// blame names the field that makes an expression invalid.
func blame(expr, name string, err error) error {
	fields := strings.Fields(expr)
	if strings.HasPrefix(expr, "@") {
		return fmt.Errorf("cron is %q: want @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly or an expression of 5 or 6 fields", expr)
	}
	first := len(fieldNames) - len(fields)
	for i, f := range fields {
		alone := []string{"*", "*", "*", "*", "*", "*"}
		alone[first+i] = f
		if _, err := parseSpec(strings.Join(alone, " "), name); err != nil {
			return fmt.Errorf("cron is %q: field %d (%s) is %q: %s", expr, i+1, fieldNames[first+i], f, wanted(first+i, f))
		}
	}
	return fmt.Errorf("cron is %q: want fields such as */5, 1-5 or 1,15", expr)
}

// wanted says what a field may have.
func wanted(field int, text string) string {
	of := bounds[field]
	want := fmt.Sprintf("want %d to %d", of[0], of[1])
	switch {
	case strings.Contains(text, "~"):
		return want + ", and for ~ write H: it stands for a value that differs by name and stays the same"
	case strings.ContainsAny(text, "/") && !strings.ContainsAny(text, "#L"):
		return want + ", and a step of at least 1 behind a /, as in */5 or 10-40/5"
	case field == len(bounds)-1:
		return "want 0 to 7 or sun to sat"
	case field == len(bounds)-2:
		return want + " or jan to dec"
	}
	return want
}

func has(set uint64, value int) bool { return set&(1<<uint(value)) != 0 }

// onDay tells whether a day matches.
func (c *cronFields) onDay(y int, m time.Month, d int) bool {
	weekday := int(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Weekday())
	dom := has(c.dom, d)
	for _, l := range c.lasts {
		dom = dom || lastMatches(l, y, m, d)
	}
	dow := has(c.dow, weekday)
	for _, n := range c.nths {
		dow = dow || n.Weekday%7 == weekday && (n.N == (d+6)/7 || n.N < 0 && d+7 > daysIn(y, m))
	}
	if c.days.both {
		return dom && dow
	}
	return dom || dow
}

func daysIn(y int, m time.Month) int { return time.Date(y, m+1, 0, 0, 0, 0, 0, time.UTC).Day() }

// lastMatches tells whether L, L-n, LW or nW means a day.
func lastMatches(c cron.DomConstraint, y int, m time.Month, d int) bool {
	last := daysIn(y, m)
	switch c.Type {
	case cron.DomLast:
		return d == last
	case cron.DomLastOffset:
		return d == last-c.N
	case cron.DomLastWeekday:
		return d == nearestWeekday(y, m, last, last)
	case cron.DomNearestWeekday:
		return c.N <= last && d == nearestWeekday(y, m, c.N, last)
	}
	return false
}

// nearestWeekday is the day from Monday to Friday nearest to d, within the month.
func nearestWeekday(y int, m time.Month, d, last int) int {
	switch time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Weekday() {
	case time.Saturday:
		if d == 1 {
			return 3
		}
		return d - 1
	case time.Sunday:
		if d == last {
			return d - 2
		}
		return d + 1
	}
	return d
}

// until is the distance from a value to the next one in a set, or to end.
func until(set uint64, value, end int) int {
	return min(bits.TrailingZeros64(set>>uint(value)), end-value)
}

// next returns the first matching wall time, not before w and before limit. Wall times are written
// as if they were UTC.
func (c *cronFields) next(w, limit time.Time) (time.Time, bool) {
	if w.Nanosecond() > 0 {
		w = w.Truncate(time.Second).Add(time.Second)
	}
	for w.Before(limit) {
		y, m, d := w.Date()
		switch {
		case !has(c.month, int(m)):
			w = time.Date(y, m+1, 1, 0, 0, 0, 0, time.UTC)
		case !c.onDay(y, m, d):
			w = time.Date(y, m, d+1, 0, 0, 0, 0, time.UTC)
		case !has(c.hour, w.Hour()):
			w = w.Truncate(time.Hour).Add(time.Duration(until(c.hour, w.Hour(), 24)) * time.Hour)
		case !has(c.minute, w.Minute()):
			w = w.Truncate(time.Minute).Add(time.Duration(until(c.minute, w.Minute(), 60)) * time.Minute)
		case !has(c.second, w.Second()):
			w = w.Add(time.Duration(until(c.second, w.Second(), 60)) * time.Second)
		default:
			return w, true
		}
	}
	return time.Time{}, false
}
