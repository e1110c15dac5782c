package observe

import (
	"errors"
	"sync"
	"time"

	"millrace/internal/metrics"
)

// Build describes the running program.
type Build struct{ Version, Commit, Go, NATSServer, Role string }

// Collect emits the build's single series.
func (b Build) Collect(emit metrics.Emit) {
	emit(metrics.BuildInfo, 1, nil, b.Version, b.Commit, b.Go, b.NATSServer, b.Role)
}

// Connections are the connections to NATS, by purpose. It is a [metrics.Source]. Safe for
// concurrent use.
type Connections struct {
	mu  sync.Mutex
	ups map[string]func() bool // guarded by mu
}

// Add adds a connection.
func (c *Connections) Add(name string, up func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ups == nil {
		c.ups = map[string]func() bool{}
	}
	c.ups[name] = up
}

// Collect emits whether each is up.
func (c *Connections) Collect(emit metrics.Emit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, up := range c.ups {
		emit(metrics.ConnectionUp, bit(up()), nil, name)
	}
}

// Check returns a [Check] that all of them are up.
func (c *Connections) Check() Check {
	return Check{Name: "connection to NATS", Live: true, Ask: func(time.Time) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, up := range c.ups {
			if !up() {
				return errors.New("down; it tries to come back by itself")
			}
		}
		return nil
	}}
}

func bit(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
