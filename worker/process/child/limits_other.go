//go:build unix && !linux

package child

import (
	"errors"
	"sync/atomic"
	"syscall"

	"millrace/task/job"
)

// This system enforces no bounds.

type cgroups struct{}

func findCgroups() (*cgroups, error) { return nil, errors.ErrUnsupported }

func (*cgroups) create(string, job.Resources) (*cgroup, error) { return nil, errors.ErrUnsupported }

type cgroup struct{}

func (*cgroup) outOfMemory() bool { return false }
func (*cgroup) close()            {}

const (
	overMemory = "memory"
	overPIDs   = "pids"
)

type watched struct {
	pid    int
	limits *limits
	over   func(what string)
	peak   atomic.Int64
}

type watcher struct{ add, drop chan *watched }

func startWatcher() *watcher {
	w := &watcher{make(chan *watched), make(chan *watched)}
	go func() {
		for {
			select {
			case _, open := <-w.add:
				if !open {
					return
				}
			case <-w.drop:
			}
		}
	}()
	return w
}

func (w *watcher) close() { close(w.add) }

func setRlimits(_ int, l *limits) {
	l.words, l.missed = nil, append(l.missed, "any bound: this system has none for us")
}

func (*limits) attributes(*syscall.SysProcAttr) {}

// kernelKills never knows of a kill on this system.
type kernelKills struct{}

func newKernelKills() *kernelKills { return nil }

func (*kernelKills) lately() bool { return false }
