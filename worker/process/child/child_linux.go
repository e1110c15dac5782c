package child

import (
	"errors"
	"math"
	"os"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	maxrssUnit = 1024 // the kernel counts in KiB
	fionread   = unix.TIOCINQ
)

func pipe(fds []int) error { return syscall.Pipe2(fds, syscall.O_CLOEXEC) }

// attributes make a child the leader of a group of its own, and make the kernel kill it when the
// thread that starts it ends.
func attributes(pidfd *int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, PidFD: pidfd}
}

// wait waits for the end of the process and reaps it. With a descriptor of the process, Go's poller
// waits; without one, an operating system thread does.
func (p *Running) wait() (status syscall.WaitStatus, usage syscall.Rusage, err error) {
	reap := func(uintptr) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		var pid int
		err = IgnoringEINTR(func() (err error) {
			pid, err = syscall.Wait4(p.PID, &status, syscall.WNOHANG, &usage)
			return err
		})
		p.reaped = pid == p.PID || err != nil
		return p.reaped
	}
	if p.pidfd >= 0 {
		unblock(p.pidfd)
		p.pidfile = os.NewFile(uintptr(p.pidfd), "pidfd")
		if conn, connErr := p.pidfile.SyscallConn(); connErr == nil && conn.Read(reap) == nil {
			return status, usage, err
		}
	}
	for !reap(0) {
		if err := IgnoringEINTR(func() error {
			return unix.Waitid(unix.P_PID, p.PID, nil, unix.WEXITED|unix.WNOWAIT, nil)
		}); err != nil {
			return status, usage, err
		}
	}
	return status, usage, err
}

// hasEnded tells whether the process has ended without having been reaped.
func (p *Running) hasEnded() bool {
	var info unix.Siginfo
	err := IgnoringEINTR(func() error {
		return unix.Waitid(unix.P_PID, p.PID, &info, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil)
	})
	return err == nil && info.Signo != 0
}

// groupByFd tells whether the kernel signals groups by descriptor (Linux 6.9).
var groupByFd = sync.OnceValue(func() bool {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	err = unix.PidfdSendSignal(fd, 0, nil, unix.PIDFD_SIGNAL_PROCESS_GROUP)
	return err == nil || errors.Is(err, unix.ESRCH) // no such group: we do not lead one
})

// signalGroup sends a signal to the whole group; signal 0 only asks whether it has members, and the
// answer is ESRCH if not. An older kernel knows groups by number only; the number is safe until the
// leader has been reaped, and after that while a member is left, which the caller has just checked.
func (p *Running) signalGroup(signal syscall.Signal) error {
	if p.pidfd >= 0 && groupByFd() {
		return unix.PidfdSendSignal(p.pidfd, signal, nil, unix.PIDFD_SIGNAL_PROCESS_GROUP)
	}
	return syscall.Kill(-p.PID, signal)
}

// living counts the live members of a group, and signals again those that missed SIGTERM: the
// signal is lost when it meets a child of a shell between fork and exec, while the shell's handler
// is still in place. A process that lives on without handling, ignoring or blocking the signal
// never got it; one that handles it is not signalled a second time.
func living(group int) (n int) {
	member := func(pid int) bool {
		s, err := readStat(pid)
		return err == nil && s.group == group && !s.ended()
	}
	for pid := range processes() {
		if !member(pid) {
			continue
		}
		n++
		if missed := func(pid int) bool { return member(pid) && !heedsTerm(pid) }; missed(pid) {
			signalIf(pid, syscall.SIGTERM, missed)
		}
	}
	return n
}

// signalIf signals a process if it is the one meant, and tells whether it did. It checks while it
// holds a descriptor of the process, for before that the number may have passed to a stranger.
func signalIf(pid int, signal syscall.Signal, meant func(pid int) bool) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, syscall.ENOSYS) {
		return meant(pid) && syscall.Kill(pid, signal) == nil
	}
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return meant(pid) && unix.PidfdSendSignal(fd, signal, nil, 0) == nil
}

// unblock lets Go's poller wait for our end of a pipe, or for a process's descriptor. The other
// flags are known, so they need not be read first.
func unblock(fd int) {
	_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFL, unix.O_NONBLOCK) // cannot fail for one of ours
}

func onMainThread() bool { return unix.Gettid() == os.Getpid() }

// closeOnExec hides every descriptor of this program from the programs it executes, also
// descriptors that it inherited or that a library has opened. Descriptors meant for a child are
// copied for it.
func closeOnExec() {
	if unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) != nil {
		closeOnExecOnce() // a kernel before 5.11
	}
}

var closeOnExecOnce = sync.OnceFunc(func() {
	files, _ := os.ReadDir("/proc/self/fd") // without it, inherited descriptors stay open
	for _, f := range files {
		if fd, err := strconv.Atoi(f.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
})
