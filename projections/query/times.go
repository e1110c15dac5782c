package query

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"millrace/task/value"
)

// Absolute parses an absolute time in any form that a command prints ([value.ParseWall]), with a
// fraction of seconds if it has one. A missing date or zone is that of now.
func Absolute(s string, now time.Time) (time.Time, error) {
	t, _, err := absolute(s, now)
	return t, err
}

func absolute(s string, now time.Time) (t time.Time, dated bool, err error) {
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

// mayDiffer is how far a time may lie ahead of the asker's clock: another machine may have printed it.
const mayDiffer = time.Minute

// Past parses a time in the past: how long ago (2h, 7d, "2h ago"), or absolute. A time of day means the latest
// such time that has passed: shortly after midnight 23:50 is yesterday's.
func Past(s string, now time.Time) (time.Time, error) {
	if d, err := value.ParseDuration(strings.TrimSuffix(s, " ago")); err == nil {
		return now.Add(-d), nil
	}
	t, dated, err := absolute(s, now)
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

// Future parses a time in the future. A time of day that has passed means tomorrow's.
func Future(s string, now time.Time) (time.Time, error) {
	t, dated, err := absolute(s, now)
	if err == nil && !t.After(now) && !dated {
		t = t.AddDate(0, 0, 1)
	}
	return t, err
}
