package jet

import (
	"fmt"

	"millrace/jet/wire"
)

// Differences says in words where the log, which is what holds, is not as a
// layout has it, and what to do about each. Zero fields of the layout are not compared.
func (s *Store) Differences(l Layout) []string {
	cfg := s.log.CachedInfo().Config
	var all []string
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if l.AckWait != 0 && l.AckWait != s.ackWait {
		add("ack_wait is %v, not %v as set: the log was made with it; leases of workers that run would mean two things", s.ackWait, l.AckWait)
	}
	if l.Replicas != 0 && l.Replicas != cfg.Replicas {
		add("the log has %d replicas, not %d as set: change it with `nats stream edit %s --replicas %d`, and the other streams likewise", cfg.Replicas, l.Replicas, wire.LogStream, l.Replicas)
	}
	if cfg.MaxConsumers <= 0 {
		add("the log may have 1000 consumers only, one for each node, queue and priority: set `default_max_consumers: %d` in `jetstream { limits {} }` of the NATS server", maxConsumers)
	}
	switch always := cfg.Metadata[metaSync] == syncAlways; {
	case l.SyncAlways && !always:
		add("the log was made for a server that does not flush every write, and writers do not share flushes: with sync always they will be slow; set it with `nats stream edit %s --metadata %s=%s`", wire.LogStream, metaSync, syncAlways)
	case !l.SyncAlways && always:
		add("the log was made for a server that flushes every write, which this one is not set to: writers still share flushes, which costs them a little")
	}
	return all
}
