package worker

import (
	"os"

	"millrace/node"
)

func profileOf(c Config) node.Profile {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return node.Profile{Host: host, PID: os.Getpid(), Version: c.Version, Labels: c.Labels, Slots: c.Slots, Queues: c.Queues, Probes: true}
}
