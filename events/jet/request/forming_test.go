package request

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
		"no leader":              {info: &jetstream.ClusterInfo{Replicas: peers(false, false, false)}, says: "of 3 servers that hold the log 3 seem to be up"},
		"no leader, one is down": {info: &jetstream.ClusterInfo{Replicas: peers(false, true, false)}, says: "of 3 servers that hold the log 2 seem to be up"},
	} {
		err := Majority(c.info)
		if errors.Is(err, ErrElecting) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

// Servers of a cluster that elect a leader, or start together, are waited for; an error that will
// not pass is returned at once.
func TestForming(t *testing.T) {
	t.Parallel()
	alone, refused := &jetstream.APIError{ErrorCode: CodeNoPeers}, &jetstream.APIError{ErrorCode: CodeStorageLimit}
	silence := context.DeadlineExceeded // no answer within formTry
	for _, c := range []struct {
		name    string
		answers []error // the last one stays
		calls   int
		want    error
		said    int
		away    bool // the connection is
	}{
		{"it is there", []error{nil}, 1, nil, 0, false},
		{"servers are missing at first", []error{alone, &jetstream.APIError{ErrorCode: CodeNoLeader}, alone, nil}, 4, nil, 1, false},
		{"there is no room", []error{alone, refused}, 2, refused, 1, false},
		{"they stay away", []error{alone}, int(25 * time.Second / formLook), ErrElecting, 3, false},
		{"nobody answers at first", []error{silence, silence, nil}, 3, nil, 1, false},
		{"nobody answers", []error{silence}, 7, ErrElecting, 2, false},
		{"nobody is there to answer", []error{silence}, 1, silence, 0, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			calls, said, began := 0, 0, time.Now()
			f := NewFormer(nil, Patience{For: 25 * time.Second, Say: func(error) { said++ }})
			f.mute = func() bool { return !c.away }
			err := f.Do(t.Context(), func(ctx context.Context) error {
				err := c.answers[min(calls, len(c.answers)-1)]
				if calls++; errors.Is(err, silence) {
					<-ctx.Done()
				}
				return err
			})
			if !errors.Is(err, c.want) || calls < c.calls || calls > c.calls+1 || time.Since(began) > 25*time.Second+formTry || said != c.said {
				t.Errorf("%s: %v after %d calls and %v, told %d times; want %v after %d, told %d times", c.name, err, calls, time.Since(began), said, c.want, c.calls, c.said)
			}
		})
	}
}
