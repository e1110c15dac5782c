package streams

import (
	"fmt"
	"slices"
	"time"

	"millrace/events/jet/names"

	"github.com/nats-io/nats.go/jetstream"
)

// Differences describes where an existing log with this ackWait differs from the layout, and what
// to do about each difference. Zero fields of the layout are not compared.
func (l Layout) Differences(log jetstream.StreamConfig, ackWait time.Duration) []string {
	var all []string
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if l.AckWait != 0 && l.AckWait != ackWait {
		add("ack_wait is %v, not %v as set: the log was made with it; leases of workers that run would mean two things", ackWait, l.AckWait)
	}
	if l.Replicas != 0 && l.Replicas != log.Replicas {
		add("the log has %d replicas, not %d as set: change it with `nats stream edit %s --replicas %d`, and the other streams likewise", log.Replicas, l.Replicas, names.LogStream, l.Replicas)
	}
	if log.MaxConsumers <= 0 {
		add("the log may have 1000 consumers only, one for each node, queue and priority: set `default_max_consumers: %d` in `jetstream { limits {} }` of the NATS server", maxConsumers)
	}
	switch always := log.Metadata[metaSync] == syncAlways; {
	case l.SyncAlways && !always:
		add("the log was made for a server that does not flush every write, and writers do not share flushes: with sync always they will be slow; set it with `nats stream edit %s --metadata %s=%s`", names.LogStream, metaSync, syncAlways)
	case !l.SyncAlways && always:
		add("the log was made for a server that flushes every write, which this one is not set to: writers still share flushes, which costs them a little")
	}
	return all
}

// Lacks says in words what streams lack that a server of this version relies on and does not add when
// it starts. Streams that are missing are made then, and subjects added.
func (l Layout) Lacks(are []jetstream.StreamConfig) []string {
	var all []string
	for _, want := range l.Streams() {
		i := slices.IndexFunc(are, func(is jetstream.StreamConfig) bool { return is.Name == want.Name })
		if i < 0 {
			continue
		}
		is := &are[i]
		for _, f := range []struct {
			name string
			fits bool
		}{
			{"retention", is.Retention == want.Retention},
			{"max_msgs_per_subject", max(is.MaxMsgsPerSubject, 0) == want.MaxMsgsPerSubject},
			{"max_msg_size", is.MaxMsgSize <= 0 || is.MaxMsgSize >= want.MaxMsgSize},
			{"allow_direct", is.AllowDirect || !want.AllowDirect},
			{"allow_atomic", is.AllowAtomicPublish || !want.AllowAtomicPublish},
			{"allow_msg_ttl", is.AllowMsgTTL || !want.AllowMsgTTL},
			{"allow_msg_schedules", is.AllowMsgSchedules || !want.AllowMsgSchedules},
		} {
			if !f.fits {
				all = append(all, want.Name+" has not the "+f.name+" that this program needs")
			}
		}
	}
	return all
}
