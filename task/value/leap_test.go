package value_test

import (
	"testing"
	"time"

	"millrace/task/value"
)

func TestLeap(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
	leap := value.Leap{Until: at(0), By: 10 * time.Minute}
	for name, c := range map[string]struct {
		leap        value.Leap
		stored, now int
		want        int
	}{
		"no leap":                   {value.Leap{}, -5, 600, 600},
		"from before it":            {leap, -5, 603, 3},
		"as it was seen":            {leap, 0, 603, 3},
		"from after it":             {leap, 601, 603, 603},
		"set back again, before it": {leap, -5, 2, -5},
	} {
		if got := c.leap.Since(at(c.stored), at(c.now)); !got.Equal(at(c.want)) {
			t.Errorf("%s: %v, want %v", name, got, at(c.want))
		}
	}
}
