//go:build unix && !linux

package child

import (
	"os"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	maxrssUnit = 1 // bytes on darwin
	fionread   = 0x4004667f
)

func pipe(fds []int) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := syscall.Pipe(fds); err != nil {
		return err
	}
	syscall.CloseOnExec(fds[0])
	syscall.CloseOnExec(fds[1])
	return nil
}

// attributes make a child the leader of a group of its own. It survives if the worker is killed:
// this system has no death signal.
func attributes(*int) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// wait waits for the end of the process and reaps it. Between the two events there is a moment in
// which stop could signal a reused number.
func (p *Running) wait() (status syscall.WaitStatus, usage syscall.Rusage, err error) {
	err = IgnoringEINTR(func() error {
		_, err := syscall.Wait4(p.PID, &status, 0, &usage)
		return err
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reaped = true
	return status, usage, err
}

func (p *Running) hasEnded() bool { return false }

func (p *Running) signalGroup(signal syscall.Signal) error { return unix.Kill(-p.PID, signal) }

// living cannot tell zombies from live members here.
func living(group int) int {
	if unix.Kill(-group, 0) != nil {
		return 0
	}
	return 1
}

// sweep does nothing: this system does not show the environment of other processes. So what
// children have started outlives a killed worker.
func sweep(string, int) error { return nil }

// StartOf returns 0: this system does not tell when a process started.
func StartOf(int) (uint64, error) { return 0, nil }

func endOrphans(string)            {}
func (w *watch) tellOrphans([]int) {}

func unblock(fd int) { _ = syscall.SetNonblock(fd, true) } // cannot fail for a pipe of ours

func onMainThread() bool { return false }

func (c *Confinement) confine(bool) (gaps []string) { return nil } // only Linux has this

// closeOnExec hides the descriptors that this program inherited from the programs it executes.
var closeOnExec = sync.OnceFunc(func() {
	files, _ := os.ReadDir("/dev/fd")
	for _, f := range files {
		if fd, err := strconv.Atoi(f.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
})
