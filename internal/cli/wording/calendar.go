package wording

import (
	"cmp"
	"fmt"
	"time"

	"millrace/internal/cli/term"
	"millrace/task/schedule"
)

// Calendar is a calendar, and how it stands at a moment.
type Calendar struct {
	schedule.StoredCalendar
	// Open tells whether it is open then, and Turns when that changes; zero if not within a year.
	Open  bool      `json:"open"`
	Turns time.Time `json:"turns,omitzero"`

	hours *schedule.Hours
}

// CalendarOf returns how a calendar stands at a moment.
func CalendarOf(c schedule.StoredCalendar, now time.Time) Calendar {
	is := Calendar{StoredCalendar: c}
	hours, err := c.Hours()
	if err != nil {
		return is // no stored calendar is invalid
	}
	is.hours, is.Open = hours, hours.Open(now)
	is.Turns, _ = hours.Turns(now)
	return is
}

// Standing says whether the calendar is open, and until when, on the clock of its zone.
func (c *Calendar) Standing() string {
	is, then := schedule.Closed, "opens"
	if c.Open {
		is, then = schedule.Open, "closes"
	}
	if c.Turns.IsZero() || c.hours == nil {
		return is + ", for more than a year"
	}
	return fmt.Sprintf("%s, %s %s", is, then, c.Turns.In(c.hours.Zone()).Format("2006-01-02 15:04 -07:00"))
}

// CalendarColumns are those of lists of calendars, at a moment.
func CalendarColumns(now time.Time) []term.Column[Calendar] {
	type row = *Calendar
	return []term.Column[Calendar]{
		term.Text("CALENDAR", 0, func(is row) string { return is.Name }),
		term.Text("TITLE", 0, func(is row) string { return term.Cut(is.Title, 40) }),
		term.Text("NOW", 0, row.Standing),
		term.Text("ZONE", 0, func(is row) string { return cmp.Or(is.Timezone, "UTC") }),
		term.Number("RULES", 3, func(is row) string { return fmt.Sprint(len(is.Rules)) }),
		term.Number("REVISION", 2, func(is row) string { return fmt.Sprint(is.Revision) }),
		ages("CHANGED", 1, now, func(is row) time.Time { return is.Changed }),
	}
}
