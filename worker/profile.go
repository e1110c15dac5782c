package worker

import (
	"maps"
	"os"
	"slices"

	"millrace/node"
	"millrace/task/value"
)

func profileOf(c Config, h handlers) node.Profile {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return node.Profile{
		Host: host, PID: os.Getpid(), Version: c.Version, Labels: c.Labels, Slots: c.Slots, Queues: c.Queues, Probes: true,
		Announces: true, Handlers: slices.Sorted(maps.Keys(h)), Commands: c.Commands != nil, TTL: value.Duration(c.NodeTTL),
	}
}
