package jet

import (
	"maps"
	"slices"
	"testing"
	"time"

	"millrace/task/node"
	"millrace/task/value"
)

// When the log's clock leaps ahead no heartbeat expires for that, and a node that has died is found
// when its heartbeat would have expired without.
func TestDeadlinesOverALeap(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	at := func(s float64) time.Time { return noon.Add(time.Duration(s * float64(time.Second))) }
	d := deadlines{of: map[node.ID]stored{}, sooner: make(chan struct{}, 1)}
	beat := func(id node.ID, s float64) {
		d.set(id, stored{beat: node.Heartbeat{Session: "s"}, at: at(s), ends: at(s + 6)})
	}
	leap := value.Leap{}
	pass := func(now float64, want time.Duration, gone ...node.ID) {
		t.Helper()
		ended, wait := d.pass(at(now), leap)
		if got := slices.Sorted(maps.Keys(ended)); !slices.Equal(got, gone) || wait != want {
			t.Errorf("at %vs the heartbeats of %v have expired, the next look is in %v; want %v and %v", now, got, wait, gone, want)
		}
	}
	beat("dies", -1)
	beat("lives", 0)
	pass(1, 4100*time.Millisecond)
	leap = value.Leap{Until: at(2), By: 10 * time.Minute}
	pass(602, 3100*time.Millisecond)
	beat("lives", 603)
	pass(604, 1100*time.Millisecond)
	pass(605.2, 3900*time.Millisecond, "dies")
	pass(609.2, seldom, "lives")
}
