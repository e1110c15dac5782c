package jet

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

func TestMajority(t *testing.T) {
	t.Parallel()
	peers := func(offline ...bool) []*jetstream.PeerInfo {
		var all []*jetstream.PeerInfo
		for _, off := range offline {
			all = append(all, &jetstream.PeerInfo{Offline: off})
		}
		return all
	}
	for name, c := range map[string]struct {
		info *jetstream.ClusterInfo
		says string // "" if most are up
	}{
		"one server":             {},
		"all are up":             {info: &jetstream.ClusterInfo{Leader: "a", Replicas: peers(false, false)}},
		"one is down":            {info: &jetstream.ClusterInfo{Leader: "a", Replicas: peers(false, true)}},
		"the leader is alone":    {info: &jetstream.ClusterInfo{Leader: "a", Replicas: peers(true, true)}, says: "of 3 servers that hold the log 1 are up"},
		"no leader":              {info: &jetstream.ClusterInfo{Replicas: peers(false, false, false)}, says: "of 3 servers that hold the log 3 are up"},
		"no leader, one is down": {info: &jetstream.ClusterInfo{Replicas: peers(false, true, false)}, says: "of 3 servers that hold the log 2 are up"},
	} {
		err := majority(c.info)
		if errors.Is(err, ErrElecting) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}
