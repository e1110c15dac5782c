package schedule

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"millrace/task/value"
)

// Calendar says when it is open and when closed, for all definitions that name it.
type Calendar struct {
	// Name is 1 to 64 letters, digits, '_' or '-'.
	Name string `json:"name" redact:"keep" names:"calendar"`
	// Title describes it in a few words. Default: none.
	Title string `json:"title,omitempty" redact:"hide"`
	// Timezone is the IANA name of the zone of the rules. Default UTC.
	Timezone string `json:"timezone,omitempty" redact:"keep" read:"line"`
	// Rules are tried in order, and the first that matches decides. At least 1, at most [MaxRules].
	Rules []Rule `json:"rules" alone:"none" like:"{closed: 22:00-06:00}"`
	// Otherwise applies where no rule matches: [Open], the default, or [Closed].
	Otherwise string `json:"otherwise,omitempty" redact:"word" words:"open,closed"`
}

// Rule is a period in which a calendar is open, or one in which it is closed. Exactly one is set,
// in the form of [job.Schedule.Calendar].
type Rule struct {
	// Open is a period in which it is open, Closed one in which it is closed.
	Open   string `json:"open,omitempty" redact:"keep" read:"line"`
	Closed string `json:"closed,omitempty" redact:"keep" read:"line"`
}

// Values of [Calendar.Otherwise].
const (
	Open   = "open"
	Closed = "closed"
)

// MaxRules bounds [Calendar.Rules].
const MaxRules = 100

// year is how far ahead openings are searched.
const year = 366 * 24 * time.Hour

// StoredCalendar is a calendar as it is stored.
type StoredCalendar struct {
	Calendar
	// Revision counts the changes of the calendar.
	Revision uint64 `json:"revision"`
	// Changed is when that was.
	Changed time.Time `json:"changed"`
}

// SeenRevision is the revision that a viewer of it sees.
func (s StoredCalendar) SeenRevision() uint64 { return s.Revision }

// ErrNeverOpen refuses a calendar that does not open within a year.
var ErrNeverOpen = errors.New("rules: it does not open within a year")

// Hours is a compiled calendar. It is never modified, so it may be shared.
type Hours struct {
	zone      *time.Location
	rules     []hour
	otherwise bool
	// edges are the minutes of a day at which any rule begins or ends, in order.
	edges []int
}

// hour is a rule of hours.
type hour struct {
	period
	open bool
}

// ReadCalendar parses and checks the stored text of a calendar.
func ReadCalendar(name string, text []byte) (Calendar, error) {
	return value.ReadNamed(name, text, func(c *Calendar) string { return c.Name }, func(c *Calendar) error {
		_, err := c.Hours()
		return err
	})
}

// Hours checks and compiles the calendar. The error begins with the name of the invalid field, and
// is [value.Faults] if there are several.
func (c *Calendar) Hours() (*Hours, error) {
	h := &Hours{otherwise: c.Otherwise != Closed}
	err := value.ValidName("calendar", c.Name)
	var zoneErr error
	h.zone, zoneErr = zoneOf(c.Timezone)
	err = value.JoinFaults(err, zoneErr)
	if c.Otherwise != "" && c.Otherwise != Open && c.Otherwise != Closed {
		err = value.JoinFaults(err, fmt.Errorf("otherwise is %q, want %s or %s", c.Otherwise, Open, Closed))
	}
	changes := false
	for i, r := range c.Rules {
		field, text := "open", r.Open
		if r.Closed != "" {
			field, text = "closed", r.Closed
		}
		if (r.Open == "") == (r.Closed == "") {
			err = value.JoinFaults(err, fmt.Errorf("rules[%d]: want one of open and closed, such as {closed: 22:00-06:00}", i))
			continue
		}
		p, wrong := parsePeriod(text)
		if wrong != nil {
			err = value.JoinFaults(err, fmt.Errorf("rules[%d].%s: %w", i, field, wrong))
		}
		rule := hour{p, field == "open"}
		changes = changes || rule.open != h.otherwise
		h.rules = append(h.rules, rule)
	}
	switch {
	case len(c.Rules) > MaxRules:
		err = value.JoinFaults(err, fmt.Errorf("rules: there are %d, want %d at most", len(c.Rules), MaxRules))
	case err == nil && !changes && h.otherwise:
		err = errors.New("rules: none says closed, and otherwise it is open: it would never close")
	case err == nil && !changes:
		err = errors.New("rules: none says open, and otherwise it is closed: it would never open")
	}
	if err != nil {
		return nil, err
	}
	for i := range h.rules {
		h.edges = append(h.edges, h.rules[i].begin, h.rules[i].end)
	}
	slices.Sort(h.edges)
	h.edges = slices.Compact(h.edges)
	return h, nil
}

// Open tells whether the calendar is open at a time.
func (h *Hours) Open(at time.Time) bool {
	wall := spanAt(at, h.zone).wall(at)
	for i := range h.rules {
		if h.rules[i].covers(wall) {
			return h.rules[i].open
		}
	}
	return h.otherwise
}

// Turns is the first moment after a time at which it opens or closes; false if that is more than a
// year away.
func (h *Hours) Turns(at time.Time) (time.Time, bool) { return h.turns(at, year) }

// turns is Turns with another horizon.
func (h *Hours) turns(at time.Time, within time.Duration) (time.Time, bool) {
	is := h.Open(at)
	for t := h.edge(at); t.Sub(at) <= within; t = h.edge(t) {
		if h.Open(t) != is {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}

// Span is a time for which a calendar is open, or closed.
type Span struct {
	Open bool
	// From is where it begins, or a moment in it. To is where it ends; zero if that is not known.
	From, To time.Time
}

// Spans returns the span at a time, and what follows, at most so many and none that begins later
// than within. The last has no end if that is later.
func (h *Hours) Spans(at time.Time, most int, within time.Duration) (all []Span) {
	until := at.Add(within)
	for open := h.Open(at); len(all) < most; open = !open {
		s := Span{Open: open, From: at}
		turns, ever := h.turns(at, until.Sub(at))
		if ever {
			s.To = turns
		}
		if all = append(all, s); !ever {
			break
		}
		at = turns
	}
	return all
}

// Opens is the first moment at or after a time at which it is open; false if that is more than a
// year away.
func (h *Hours) Opens(at time.Time) (time.Time, bool) {
	if h.Open(at) {
		return at, true
	}
	return h.Turns(at)
}

// Zone is the time zone of the calendar.
func (h *Hours) Zone() *time.Location { return h.zone }

// edge is the first moment after a time at which any rule may begin or stop to match: a minute of
// edges, a midnight, or a change of clocks.
func (h *Hours) edge(t time.Time) time.Time {
	const day = 24 * time.Hour
	s := spanAt(t, h.zone)
	wall := s.wall(t)
	midnight := wall.Truncate(day)
	next := midnight.Add(day)
	at, _ := slices.BinarySearch(h.edges, int(wall.Sub(midnight)/time.Minute)+1)
	if at < len(h.edges) {
		next = midnight.Add(time.Duration(h.edges[at]) * time.Minute)
	}
	first := s.instant(next)
	if !s.end.IsZero() && first.After(s.end) {
		first = s.end // across a change of clocks, search again
	}
	if !first.After(t) { // beyond the tables the bounds of a year may be slightly off
		return t.Add(time.Minute)
	}
	return first
}
