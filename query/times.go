package query

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"millrace/task/value"
)

// dayForms are the accepted absolute times, in the local zone if they name none.
var dayForms = []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateTime, "2006-01-02 15:04", time.DateOnly}

// Absolute parses an absolute time. A missing date or zone is that of now.
func Absolute(s string, now time.Time) (time.Time, error) {
	for _, form := range dayForms {
		if t, err := time.ParseInLocation(form, s, now.Location()); err == nil {
			return t, nil
		}
	}
	for _, form := range dayForms {
		var bad *time.ParseError
		if _, err := time.Parse(form, s); errors.As(err, &bad) && strings.HasSuffix(bad.Message, "out of range") {
			return time.Time{}, fmt.Errorf("%q does not exist: there is no such day or hour", s)
		}
	}
	for _, form := range []string{"15:04", time.TimeOnly} {
		if t, err := time.Parse(form, s); err == nil {
			return time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), 0, now.Location()), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time: want 2026-03-01T12:00:00Z, \"2026-03-01 12:00\" or 12:00", s)
}

// Past parses a time in the past: how long ago (2h, 7d), or absolute.
func Past(s string, now time.Time) (time.Time, error) {
	if d, err := value.ParseDuration(s); err == nil {
		return now.Add(-d), nil
	}
	t, err := Absolute(s, now)
	if err != nil {
		return t, fmt.Errorf("%w, or so long ago: 2h, 7d", err)
	}
	return t, nil
}

// Future parses a time in the future. A time of day that has passed means tomorrow's.
func Future(s string, now time.Time) (time.Time, error) {
	t, err := Absolute(s, now)
	if err == nil && !t.After(now) && strings.Contains(s, ":") && len(s) <= len("15:04:05") {
		t = time.Date(t.Year(), t.Month(), t.Day()+1, t.Hour(), t.Minute(), t.Second(), 0, t.Location())
	}
	return t, err
}
