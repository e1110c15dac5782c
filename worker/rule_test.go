package worker

import (
	"testing"
	"time"
)

// Who may go on, by how long nothing was heard from the log.
func TestMayGoOn(t *testing.T) {
	s := safety{ackWait: 30 * time.Second, nodeTTL: 15 * time.Second}
	for _, c := range []struct {
		name        string
		lease, beat time.Duration
		stop        bool // what `stop` does
	}{
		{"all is confirmed", 0, 0, false},
		{"a renewal is due", 10 * time.Second, 5 * time.Second, false},
		{"just before the bounds", 20*time.Second - 1, 10*time.Second - 1, false},
		{"the lease is at stake", 20 * time.Second, 0, true},
		{"the heartbeat is at stake", 0, 10 * time.Second, true},
		{"both ran out", time.Hour, time.Hour, true},
	} {
		if got := s.mayGoOn(false, c.lease, c.beat); got == c.stop {
			t.Errorf("%s: one that stops may go on: %v", c.name, got)
		}
		if !s.mayGoOn(true, c.lease, c.beat) {
			t.Errorf("%s: one that continues is stopped", c.name)
		}
	}
}
