package value

import (
	"errors"
	"strings"
	"time"
)

// Wall is a time as people write it and as commands print it. What it lacks, the reader adds.
type Wall struct {
	// Time is in UTC, or in the zone that the text names.
	Time time.Time
	// Dated says that the text has a date, Yearless that the date has no year, and Zoned that the text
	// has a zone: Z, UTC or an offset.
	Dated, Yearless, Zoned bool
}

// Forms of dates, of times of a day and of offsets. A fraction may follow the seconds.
var (
	wallDates  = []string{time.DateOnly, "01-02"}
	wallClocks = []string{time.TimeOnly, "15:04"}
	wallZones  = []string{"Z07:00", " Z07:00", "-0700", " -0700", " UTC", "UTC"}
)

// ParseWall parses a time: a date with or without its year, a time of day, or both with a space or a T
// between them; behind a time of day also a zone; before a date also its day of the week.
func ParseWall(text string) (w Wall, ok bool) {
	if day, rest, cut := strings.Cut(text, " "); cut && len(day) == 3 {
		if _, err := time.Parse("Mon", day); err == nil {
			text = rest
		}
	}
	for _, date := range append(wallDates, "") {
		w.Dated, w.Yearless = date != "", date == "01-02"
		if t, err := time.Parse(date, text); err == nil && w.Dated {
			w.Time = t
			return w, true
		}
		for _, clock := range wallClocks {
			for _, between := range []string{" ", "T"} {
				if !w.Dated {
					between = ""
				}
				for _, zone := range append(wallZones, "") {
					if t, err := time.Parse(date+between+clock+zone, text); err == nil {
						w.Time, w.Zoned = t, zone != ""
						return w, true
					}
				}
			}
		}
	}
	return Wall{}, false
}

// Impossible tells whether a text is written as a time that does not exist: 2026-02-30, 25:00.
func Impossible(text string) bool {
	dates := []string{time.DateOnly}
	if strings.Contains(text, ":") {
		dates = append(wallDates, "")
	}
	for _, date := range dates {
		if outOfRange(date, text) {
			return true
		}
		for _, clock := range wallClocks {
			for _, between := range []string{" ", "T"} {
				for _, zone := range append(wallZones, "") {
					if form := date + between + clock + zone; outOfRange(strings.TrimLeft(form, " T"), text) {
						return true
					}
				}
			}
		}
	}
	return false
}

func outOfRange(form, text string) bool {
	var bad *time.ParseError
	_, err := time.Parse(form, text)
	return errors.As(err, &bad) && strings.HasSuffix(bad.Message, "out of range")
}

// In is the time in the zone of now, or in its own. A missing date or year is that of now.
func (w Wall) In(now time.Time) time.Time {
	t, zone := w.Time, now.Location()
	if w.Zoned {
		zone = t.Location()
	}
	now = now.In(zone)
	year, month, day := t.Date()
	switch {
	case !w.Dated:
		year, month, day = now.Date()
	case w.Yearless:
		year = now.Year()
	}
	return time.Date(year, month, day, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), zone)
}
