package reach

import (
	"testing"
	"time"

	"millrace/view"
)

func TestParseMoment(t *testing.T) {
	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.Local)
	for text, want := range map[string]view.Moment{
		"":                     {},
		"end":                  {},
		"1048211":              {Seq: 1048211},
		"#17":                  {Seq: 17},
		"-10m":                 {At: now.Add(-10 * time.Minute)},
		"10m":                  {At: now.Add(-10 * time.Minute)},
		"2026-03-01 12:00":     {At: time.Date(2026, 3, 1, 12, 0, 0, 0, time.Local)},
		"2026-03-01T12:00:00Z": {At: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)},
	} {
		if m, err := ParseMoment(text, now); err != nil || m.Seq != want.Seq || !m.At.Equal(want.At) {
			t.Errorf("%q: %+v, %v; want %+v", text, m, err, want)
		}
	}
	for _, text := range []string{"0", "#0", "soon", "-", "#", "-17x"} {
		if m, err := ParseMoment(text, now); err == nil {
			t.Errorf("%q: %+v", text, m)
		}
	}
}
