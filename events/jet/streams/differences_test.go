package streams

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	"millrace/events/jet/names"
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

// A log says how it was made, and which of its facts may hide values; a log of its own says nothing of
// that, nor do other streams.
func TestLayoutOf(t *testing.T) {
	t.Parallel()
	for _, l := range []Layout{{AckWait: time.Minute}, {AckWait: 6 * time.Second, SyncAlways: true, Import: events.Import{Hidden: 1048194, Lacks: 1048100}}} {
		if is := LayoutOf(l.LogStream()); is.AckWait != l.AckWait || is.SyncAlways != l.SyncAlways || is.Import != l.Import {
			t.Errorf("%+v is read as %+v", l, is)
		}
		for _, cfg := range l.Streams() {
			for _, name := range []string{metaHidden, metaLacks} {
				if _, says := cfg.Metadata[name]; says != (cfg.Name == names.LogStream && l.Import != events.Import{}) {
					t.Errorf("%s of %+v has %v", cfg.Name, l, cfg.Metadata)
				}
			}
		}
	}
}

func TestLacks(t *testing.T) {
	t.Parallel()
	l := Layout{AckWait: 6 * time.Second}
	for want, change := range map[string]func(log, state *jetstream.StreamConfig){
		"":                              func(log, state *jetstream.StreamConfig) { log.Subjects, state.Name = nil, "OTHER" },
		"MR_LOG has not the allow_atom": func(log, _ *jetstream.StreamConfig) { log.AllowAtomicPublish = false },
		"MR_LOG has not the retention":  func(log, _ *jetstream.StreamConfig) { log.Retention = jetstream.WorkQueuePolicy },
		"MR_LOG has not the max_msgs_":  func(log, _ *jetstream.StreamConfig) { log.MaxMsgsPerSubject = 1 },
		"MR_LOG has not the max_msg_s":  func(log, _ *jetstream.StreamConfig) { log.MaxMsgSize = 1024 },
		"MR_STATE has not the allow_m":  func(_, state *jetstream.StreamConfig) { state.AllowMsgTTL = false },
		"MR_STATE has not the max_msg":  func(_, state *jetstream.StreamConfig) { state.MaxMsgsPerSubject = -1 },
	} {
		are := l.Streams()
		at := func(name string) *jetstream.StreamConfig {
			for i := range are {
				if are[i].Name == name {
					return &are[i]
				}
			}
			t.Fatal("there is no", name)
			return nil
		}
		at(names.LogStream).MaxMsgsPerSubject, at(names.StateStream).MaxMsgSize = -1, -1 // as the server says it
		change(at(names.LogStream), at(names.StateStream))
		switch got := l.Lacks(are); {
		case want == "" && len(got) != 0, want != "" && len(got) != 1:
			t.Errorf("%q: %q", want, got)
		case want != "" && !strings.HasPrefix(got[0], want):
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
