package streams

import (
	"strings"
	"testing"
	"time"
)

func TestDifferences(t *testing.T) {
	t.Parallel()
	made := Layout{AckWait: 6 * time.Second}.withDefaults()
	log := made.LogStream()
	for _, c := range []struct {
		name   string
		layout Layout
		want   string // part of the only one; "" for none
	}{
		{"nothing set", Layout{}, ""},
		{"the same", Layout{Replicas: 1, AckWait: 6 * time.Second}, ""},
		{"leases", Layout{AckWait: time.Minute}, "ack_wait is 6s, not 1m0s"},
		{"replicas", Layout{Replicas: 3}, "1 replicas, not 3"},
		{"flushes", Layout{SyncAlways: true}, "sync always"},
	} {
		got := c.layout.Differences(log, made.AckWait)
		switch {
		case c.want == "" && len(got) != 0, c.want != "" && len(got) != 1:
			t.Errorf("%s: got %q", c.name, got)
		case c.want != "" && !strings.Contains(got[0], c.want):
			t.Errorf("%s: got %q, want something with %q", c.name, got[0], c.want)
		}
	}
}
