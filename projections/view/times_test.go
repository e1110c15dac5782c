package view

import (
	"strings"
	"testing"
	"time"
)

func TestParsePast(t *testing.T) {
	for text, want := range map[string]time.Time{
		"2h": queryNoon.Add(-2 * time.Hour), "7d": queryNoon.AddDate(0, 0, -7),
		"2026-02-28": time.Date(2026, 2, 28, 0, 0, 0, 0, time.UTC), "2026-02-28 13:30": time.Date(2026, 2, 28, 13, 30, 0, 0, time.UTC),
		"2026-02-28T13:30:01.5+02:00": time.Date(2026, 2, 28, 11, 30, 1, 5e8, time.UTC), "11:30": queryNoon.Add(-30 * time.Minute),
		// The latest such time that has passed.
		"23:50": queryNoon.Add(11*time.Hour+50*time.Minute).AddDate(0, 0, -1), "12:02": queryNoon.Add(2*time.Minute).AddDate(0, 0, -1), "12:00": queryNoon, "12:00:30": queryNoon.Add(30 * time.Second),
	} {
		if got, err := ParsePast(text, queryNoon); err != nil || !got.Equal(want) {
			t.Errorf("Past(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	if _, err := ParsePast("yesterday", queryNoon); err == nil || !strings.Contains(err.Error(), "2h, 7d") {
		t.Errorf("Past of nonsense: %v, want one that shows the forms", err)
	}
}

// Every form that a command prints can be typed, with the fraction of the second that it has.
func TestAbsolute(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, berlin)
	at := time.Date(2026, 2, 28, 13, 30, 1, 402_500_000, berlin)
	minute, second := at.Truncate(time.Minute), at.Truncate(time.Second)
	for text, want := range map[string]time.Time{
		"2026-02-28 13:30:01.402500": at, "2026-02-28T13:30:01.4025": at, "2026-02-28 13:30:01.402": at.Truncate(time.Millisecond), "2026-02-28T12:30:01.4025Z": at, "2026-02-28 12:30:01.4025Z": at,
		"2026-02-28 13:30:01.4025 +01:00": at, "2026-02-28 13:30:01.4025 +0100": at, "2026-02-28 13:30:01.4025+01:00": at, "2026-02-28 07:30:01 -05:00": second,
		"2026-02-28 12:30:01 UTC": second, "2026-02-28 13:30:01 CET": second, "2026-02-28 13:30:01 (1d ago)": second, "Sat 2026-02-28 13:30 +01:00": minute, "02-28 13:30": minute, "2026-02-28 13:30 +01:00": minute,
		"13:30:01.4025": at.AddDate(0, 0, 1), "11:30:01.4025Z": at.AddDate(0, 0, 1).Add(-time.Hour), "2026-02-28T13:30": minute, "2026-02-28T12:30Z": minute, "2026-02-28": time.Date(2026, 2, 28, 0, 0, 0, 0, berlin),
	} {
		if got, err := ParseTime(text, now); err != nil || !got.Equal(want) {
			t.Errorf("Absolute(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "Z", "12", "2026-02-30", "25:00", "2026-02-28 13:30:01 CST", "2026-02-28 13:30:01.4025 +1", "2026-02-28 Z", "yesterday"} {
		if got, err := ParseTime(text, now); err == nil {
			t.Errorf("Absolute(%q) = %v, want an error", text, got)
		}
	}
	if got, err := ParsePast("2h ago", now); err != nil || !got.Equal(now.Add(-2*time.Hour)) {
		t.Errorf("Past(2h ago) = %v, %v", got, err)
	}
	if got, err := ParseFuture("11:59:59.5", now); err != nil || !got.Equal(now.Add(24*time.Hour-500*time.Millisecond)) {
		t.Errorf("a time of day with a fraction that has passed: %v, %v, want tomorrow's", got, err)
	}
}

func TestFuture(t *testing.T) {
	for text, want := range map[string]time.Time{
		"13:00": queryNoon.Add(time.Hour), "11:00": queryNoon.Add(23 * time.Hour), "12:00": queryNoon.AddDate(0, 0, 1), "12:00:01": queryNoon.Add(time.Second),
		"2026-03-02T00:00:00Z": queryNoon.Add(12 * time.Hour), "2025-01-01 00:00": time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		if got, err := ParseFuture(text, queryNoon); err != nil || !got.Equal(want) {
			t.Errorf("Future(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
}
