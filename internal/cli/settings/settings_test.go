package settings

import (
	"testing"
	"time"
)

// The profiles have the values that were asked for (A16): how long a worker has to end, and how often
// at least sweeps and heartbeats come. No profile ends a task because its workers are away.
func TestProfiles(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for profile, want := range map[string]struct{ check, beat, shutdown time.Duration }{
		Dev:  {30 * time.Second, 10 * time.Second, 15 * time.Second},
		Prod: {60 * time.Second, 10 * time.Second, 30 * time.Second},
	} {
		s, origins, err := Load("", nil, profile)
		if err != nil {
			t.Fatal(err)
		}
		if s.StartDeadline != 0 || s.Grace != want.shutdown || s.Sweep > want.check || s.Beat > want.beat {
			t.Errorf("%s: timeout %v, check %v, beat %v, shutdown %v; want %+v", profile, s.StartDeadline, s.Sweep, s.Beat, s.Grace, want)
		}
		if s.NodeTTL < 3*s.Beat {
			t.Errorf("%s: a node TTL of %v has no room for two lost heartbeats of one each %v", profile, s.NodeTTL, s.Beat)
		}
		if from := origins["start_deadline"]; from != "profile "+profile {
			t.Errorf("%s: the start deadline comes from %q", profile, from)
		}
		for text, want := range map[string]time.Duration{"90s": 90 * time.Second, "off": 0} {
			if err := s.Take(map[string]string{"start_deadline": text}); err != nil || s.StartDeadline != want || s.Judging()["start_deadline"] != map[bool]string{true: "off", false: "1m30s"}[want == 0] {
				t.Errorf("%s: a start deadline of %s is %v, %v", profile, text, s.StartDeadline, err)
			}
		}
		if err := s.Take(map[string]string{"start_deadline": "0"}); err == nil {
			t.Errorf("%s: a start deadline of 0 is accepted", profile)
		}
	}
}
