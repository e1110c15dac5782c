package schedule

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"millrace/task/value"
)

// period is a part of a calendar: dates, weekdays and times of day, which must all match. An unset
// one always matches.
type period struct {
	text       string
	from, to   int // dates as year·10000 + month·100 + day, without the year if yearly
	yearly     bool
	weekdays   uint64
	begin, end int // minutes of the day; end is exclusive
}

// parsePeriod reads parts separated by spaces: dates (2026-12-24, 2026-12-24..2026-12-26, or
// 12-24..01-02 for every year), weekdays (sat,sun or mon-fri) and times (22:00-06:00).
func parsePeriod(text string) (period, error) {
	w := period{text: text}
	parts := strings.Fields(text)
	if len(parts) == 0 {
		return w, errors.New("a period is empty")
	}
	var dates, days, times bool
	for _, part := range parts {
		var err error
		var twice *bool
		switch {
		case strings.Contains(part, ":"):
			twice, err = &times, w.readTimes(part)
		case part[0] >= '0' && part[0] <= '9':
			twice, err = &dates, w.readDates(part)
		default:
			twice, err = &days, w.readDays(part)
		}
		if err == nil && *twice {
			err = fmt.Errorf("a period has one part of each kind")
		}
		*twice = true
		if err != nil {
			return w, fmt.Errorf("%q in %q: %w", part, text, err)
		}
	}
	return w, nil
}

func (w *period) readTimes(part string) error {
	from, to, ok := strings.Cut(part, "-")
	begin, err := time.Parse("15:04", from)
	if err == nil && to != "24:00" {
		var end time.Time
		end, err = time.Parse("15:04", to)
		w.end = end.Hour()*60 + end.Minute()
	} else {
		w.end = 24 * 60
	}
	w.begin = begin.Hour()*60 + begin.Minute()
	if !ok || err != nil || w.begin == w.end {
		return fmt.Errorf("want times such as 22:00-06:00")
	}
	return nil
}

func (w *period) readDates(part string) error {
	from, to, isRange := strings.Cut(part, "..")
	if !isRange {
		to = from
	}
	layout := "2006-01-02"
	if len(from) == len("01-02") {
		// The year is a leap year, so that 02-29 is a date.
		w.yearly, from, to = true, "2000-"+from, "2000-"+to
	}
	begin, err1 := time.Parse(layout, from)
	end, err2 := time.Parse(layout, to)
	if value.Impossible(from) || value.Impossible(to) {
		return fmt.Errorf("there is no such day")
	}
	if err1 != nil || err2 != nil {
		return fmt.Errorf("want dates such as 2026-12-24..2026-12-26, or 12-24 for every year")
	}
	if end.Before(begin) && !w.yearly {
		return fmt.Errorf("it ends before it begins")
	}
	w.from, w.to = w.dateOf(begin), w.dateOf(end)
	return nil
}

func (w *period) dateOf(t time.Time) int {
	d := int(t.Month())*100 + t.Day()
	if !w.yearly {
		d += t.Year() * 10000
	}
	return d
}

var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

func weekday(s string) (int, error) {
	s = strings.ToLower(s)
	for i, name := range weekdays {
		if s == name || s == strings.ToLower(time.Weekday(i).String()) {
			return i, nil
		}
	}
	return 0, fmt.Errorf("want weekdays such as sat,sun or mon-fri")
}

func (w *period) readDays(part string) error {
	for item := range strings.SplitSeq(part, ",") {
		from, to, isRange := strings.Cut(item, "-")
		if !isRange {
			to = from
		}
		a, err := weekday(from)
		if err != nil {
			return err
		}
		b, err := weekday(to)
		if err != nil {
			return err
		}
		for d := a; ; d = (d + 1) % 7 {
			w.weekdays |= 1 << uint(d)
			if d == b {
				break
			}
		}
	}
	return nil
}

// covers tells whether a wall time lies in the period. A period that crosses midnight belongs to
// the day on which it begins.
func (w *period) covers(t time.Time) bool {
	day := t
	if w.begin != w.end {
		minute := t.Hour()*60 + t.Minute()
		switch {
		case w.begin < w.end:
			if minute < w.begin || minute >= w.end {
				return false
			}
		case minute < w.end:
			day = t.AddDate(0, 0, -1)
		case minute < w.begin:
			return false
		}
	}
	if w.weekdays != 0 && w.weekdays&(1<<uint(day.Weekday())) == 0 {
		return false
	}
	if w.from == 0 {
		return true
	}
	date := w.dateOf(day)
	if w.from > w.to { // across the turn of the year
		return date >= w.from || date <= w.to
	}
	return w.from <= date && date <= w.to
}

// edge is the first wall time after t at which the period may begin or end: a boundary of its times
// of day, or a midnight.
func (w *period) edge(t time.Time) time.Time {
	midnight := time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
	first := midnight.AddDate(0, 0, 1)
	if w.begin == w.end {
		return first
	}
	for _, minute := range [...]int{w.begin, w.end} {
		if at := midnight.Add(time.Duration(minute) * time.Minute); at.After(t) && at.Before(first) {
			first = at
		}
	}
	return first
}

// edgeAfter is [period.edge] as an instant, on the clock of a zone.
func (w *period) edgeAfter(t time.Time, zone *time.Location) time.Time {
	s := spanAt(t, zone)
	edge := s.instant(w.edge(s.wall(t)))
	if !s.end.IsZero() && edge.After(s.end) {
		return s.end // across a change of clocks, search again
	}
	return edge
}

func (w *period) String() string { return strconv.Quote(w.text) }
