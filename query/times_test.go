package query

import (
	"strings"
	"testing"
	"time"
)

func TestPast(t *testing.T) {
	for text, want := range map[string]time.Time{
		"2h": noon.Add(-2 * time.Hour), "7d": noon.AddDate(0, 0, -7),
		"2026-02-28": time.Date(2026, 2, 28, 0, 0, 0, 0, time.UTC), "2026-02-28 13:30": time.Date(2026, 2, 28, 13, 30, 0, 0, time.UTC),
		"2026-02-28T13:30:01.5+02:00": time.Date(2026, 2, 28, 11, 30, 1, 5e8, time.UTC), "11:30": noon.Add(-30 * time.Minute),
	} {
		if got, err := Past(text, noon); err != nil || !got.Equal(want) {
			t.Errorf("Past(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	if _, err := Past("yesterday", noon); err == nil || !strings.Contains(err.Error(), "2h, 7d") {
		t.Errorf("Past of nonsense: %v, want one that shows the forms", err)
	}
}

func TestFuture(t *testing.T) {
	for text, want := range map[string]time.Time{
		"13:00": noon.Add(time.Hour), "11:00": noon.Add(23 * time.Hour), "12:00": noon.AddDate(0, 0, 1), "12:00:01": noon.Add(time.Second),
		"2026-03-02T00:00:00Z": noon.Add(12 * time.Hour), "2025-01-01 00:00": time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		if got, err := Future(text, noon); err != nil || !got.Equal(want) {
			t.Errorf("Future(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
}
