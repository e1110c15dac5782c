package view

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"millrace/task/value"
)

// ParseTime parses an absolute time in any form that a command prints ([value.ParseWall]), with a
// fraction of seconds if it has one. A missing date or zone is that of now.
func ParseTime(s string, now time.Time) (time.Time, error) {
	t, _, err := parseTime(s, now)
	return t, err
}

func parseTime(s string, now time.Time) (t time.Time, dated bool, err error) {
	text, _, _ := strings.Cut(s, " (") // "2026-03-01 12:00:00 (5m ago)", as many commands print it
	if w, ok := value.ParseWall(text); ok {
		return w.In(now), w.Dated, nil
	}
	// The name of a zone says nothing by itself: CST is four of them. It is understood where it is the
	// zone's of now.
	if at := strings.LastIndexByte(text, ' '); at > 0 {
		if w, ok := value.ParseWall(text[:at]); ok && !w.Zoned {
			if t = w.In(now); t.Format("MST") == text[at+1:] {
				return t, w.Dated, nil
			}
		}
	}
	if value.Impossible(text) {
		return time.Time{}, false, fmt.Errorf("%q %w", s, errImpossible)
	}
	return time.Time{}, false, fmt.Errorf("%q is no time: want 2026-03-01T12:00:00Z, \"2026-03-01 12:00\" or 12:00", s)
}

// errImpossible refuses a time that is written well and does not exist.
var errImpossible = errors.New("does not exist: there is no such day or hour")

// ParsePast parses a time in the past: how long ago (2h, 7d, "2h ago"), or absolute. A time of day means the latest
// such time that has passed: shortly after midnight 23:50 is yesterday's.
func ParsePast(s string, now time.Time) (time.Time, error) {
	if d, err := value.ParseDuration(strings.TrimSuffix(s, " ago")); err == nil {
		return now.Add(-d), nil
	}
	t, dated, err := parseTime(s, now)
	switch {
	case errors.Is(err, errImpossible):
		return t, err
	case err != nil:
		return t, fmt.Errorf("%w, or so long ago: 2h, 7d", err)
	case !dated && t.After(now.Add(mayDiffer)):
		t = t.AddDate(0, 0, -1)
	}
	return t, nil
}

// ParseFuture parses a time in the future. A time of day that has passed means tomorrow's.
func ParseFuture(s string, now time.Time) (time.Time, error) {
	t, dated, err := parseTime(s, now)
	if err == nil && !t.After(now) && !dated {
		t = t.AddDate(0, 0, 1)
	}
	return t, err
}
