package limit

import (
	"testing"
	"time"

	"millrace/task/value"
)

// A bucket admits its burst at once and then one task after the other. Over any span it admits no
// more than burst and rate allow.
func TestBucket(t *testing.T) {
	r := Rate{Limit: 10, Per: value.Duration(time.Minute), Burst: 3}
	var b Bucket
	now := noon
	if got := b.Left(r, now); got != 3 {
		t.Errorf("untouched, %d are left, want 3", got)
	}
	var at []time.Time
	for i := range 600 {
		now = noon.Add(time.Duration(i) * 100 * time.Millisecond)
		for !b.Opens(r).After(now) {
			if b.Left(r, now) == 0 {
				t.Fatalf("at %v it is open and nothing is left", now)
			}
			b = b.Take(r, now)
			at = append(at, now)
		}
		if b.Left(r, now) != 0 {
			t.Fatalf("at %v it is shut and %d are left", now, b.Left(r, now))
		}
	}
	if len(at) != 3+9 {
		t.Errorf("%d were admitted in a minute, want the burst of 3 and 9 more", len(at))
	}
	until := now.Add(time.Hour)
	if b = b.Pause(r, until); !b.Opens(r).Equal(until) {
		t.Errorf("paused until %v, it opens at %v", until, b.Opens(r))
	}
	if b.Pause(r, now) != b {
		t.Error("a pause that is over shuts it for longer")
	}
}
