package settings

import (
	"testing"
	"time"
)

// The profiles have the values that were asked for (A16): how long a task may wait for a node, how
// long a worker has to end, and how often at least sweeps and heartbeats come.
func TestProfiles(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for profile, want := range map[string]struct{ timeout, check, beat, shutdown time.Duration }{
		Dev:  {120 * time.Second, 30 * time.Second, 10 * time.Second, 15 * time.Second},
		Prod: {300 * time.Second, 60 * time.Second, 10 * time.Second, 30 * time.Second},
	} {
		s, origins, err := Load("", nil, profile)
		if err != nil {
			t.Fatal(err)
		}
		if s.StartDeadline != want.timeout || s.Grace != want.shutdown || s.Sweep > want.check || s.Beat > want.beat {
			t.Errorf("%s: timeout %v, check %v, beat %v, shutdown %v; want %+v", profile, s.StartDeadline, s.Sweep, s.Beat, s.Grace, want)
		}
		if s.NodeTTL < 3*s.Beat {
			t.Errorf("%s: a node TTL of %v has no room for two lost heartbeats of one each %v", profile, s.NodeTTL, s.Beat)
		}
		if from := origins["start_deadline"]; from != "profile "+profile {
			t.Errorf("%s: the start deadline comes from %q", profile, from)
		}
	}
}
