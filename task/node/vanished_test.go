package node

import (
	"testing"
	"time"

	"millrace/task/value"
)

func TestVanished(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	n := Node{ID: "n1", Profile: Profile{TTL: value.Duration(10 * time.Second)}}
	for _, c := range []struct {
		name  string
		ttl   time.Duration
		pulse Pulse
		since time.Duration // before noon; 0 for never
		want  bool
	}{
		{"it beats", 10 * time.Second, Pulse{Beat: Heartbeat{Session: "s1"}, Stored: noon}, 0, false},
		{"a mark", 10 * time.Second, Pulse{Stored: noon, RanOut: true}, 0, true},
		{"it was taken back", 10 * time.Second, Pulse{Stored: noon}, 0, true},
		{"no trace, just found", 10 * time.Second, Pulse{}, 0, false},
		{"no trace for less than a heartbeat lasts", 10 * time.Second, Pulse{}, 9 * time.Second, false},
		{"no trace for longer", 10 * time.Second, Pulse{}, 10 * time.Second, true},
		{"no trace, and it beats again", 10 * time.Second, Pulse{Beat: Heartbeat{Session: "s1"}, Stored: noon}, time.Minute, false},
		{"no trace of a node that does not say how long its heartbeat lasts", 0, Pulse{}, 0, true},
	} {
		c.pulse.Now = noon
		var since time.Time
		if c.since > 0 {
			since = noon.Add(-c.since)
		}
		n.TTL = value.Duration(c.ttl)
		if got := n.Vanished(c.pulse, since); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
