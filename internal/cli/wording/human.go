package wording

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/internal/cli/term"
)

// century is from where on spans are told in years.
const century = 100 * 365 * 24 * time.Hour

// Span formats a duration with a readable precision: 340ms, 12.3s, 4m05s, 3h12m, 5d07h, and 0.4ms
// for very short ones. From a century on it tells years, 292 at most, where a Duration ends.
func Span(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + Span(-max(d, -math.MaxInt64))
	case d < 10*time.Millisecond && d > 0:
		return strconv.FormatFloat(max(d.Truncate(100*time.Microsecond), 100*time.Microsecond).Seconds()*1000, 'f', 1, 64) + "ms"
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	case d < 10*time.Second:
		return d.Truncate(10 * time.Millisecond).String()
	case d < time.Minute:
		return d.Truncate(100 * time.Millisecond).String()
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	case d < century:
		return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
	}
	return fmt.Sprintf("%dy", int(d.Hours())/24/365)
}

// between formats the time from one moment to a later one, however far.
func between(from, to time.Time) string {
	if d := to.Sub(from); d < century {
		return Span(d)
	}
	return fmt.Sprintf("%dy", to.Year()-from.Year())
}

// Age is how long ago at was, in one unit; "" for no time.
func Age(at, now time.Time) string {
	if at.IsZero() {
		return ""
	}
	d := now.Sub(at)
	switch {
	case d < 0:
		return "in " + between(now, at)
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}

// unlessZero says a number; "" for 0.
func unlessZero[N int | float64 | time.Duration](n N, say func(N) string) string {
	if n == 0 {
		return ""
	}
	return say(n)
}

// ages is a column of moments, of which a terminal tells how long ago they were.
func ages[R any](title string, spare int, now time.Time, at func(*R) time.Time) term.Column[R] {
	c := term.Text(title, spare, func(r *R) string { return Age(at(r), now) })
	c.At = at
	return c
}

// Moment formats a time and its distance: "2026-03-01 12:00:00 (5m ago)".
func Moment(at, now time.Time) string {
	switch {
	case at.IsZero():
		return ""
	case at.After(now):
		return fmt.Sprintf("%s (in %s)", Clock(at), between(now, at))
	}
	return fmt.Sprintf("%s (%s ago)", Clock(at), between(at, now))
}

// Clock formats a time in this machine's zone: all times that a person reads, except for those of a
// schedule.
func Clock(at time.Time) string { return at.Local().Format(time.DateTime) }

// stamps are times in the texts of Millrace, which are in UTC.
var stamps = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z\b`)

// Clocks is a text of Millrace with its times on the clock of this machine.
func Clocks(text string) string {
	return stamps.ReplaceAllStringFunc(text, func(stamp string) string {
		at, err := time.Parse(time.RFC3339, stamp)
		if err != nil {
			return stamp
		}
		return Clock(at)
	})
}

// ClockIn formats a time of a schedule: in the schedule's zone, with how far that is ahead of UTC.
func ClockIn(at time.Time, zone *time.Location) string {
	return at.In(zone).Format("2006-01-02 15:04:05 -07:00")
}

// ByteCount formats a size in binary units.
func ByteCount(n int64) string {
	if n < 1024 {
		return strconv.FormatInt(n, 10) + " B"
	}
	v, unit := float64(n)/1024, 0
	for v >= 1024 && unit < 3 {
		v, unit = v/1024, unit+1
	}
	return fmt.Sprintf("%.1f %s", v, []string{"KiB", "MiB", "GiB", "TiB"}[unit])
}

// Pairs formats labels in a fixed order: "a=1 b=2".
func Pairs(m map[string]string) string {
	var b strings.Builder
	for i, k := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(k + "=" + m[k])
	}
	return b.String()
}

// Plural is "1 task", "2 tasks".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
