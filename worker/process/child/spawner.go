package child

import (
	"errors"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
)

// maxThreads bounds the threads of a spawner. Only one fork happens at a time, but with a single
// thread all others wait when the system suspends it between two forks. Measured with eight
// processes concurrently on two cores, relative to plain fork and exec: one thread reaches 0.80,
// two 0.93, four 0.92.
const maxThreads = 4

// spawner starts processes from operating system threads that it keeps until stop. The kernel sends
// a child its death signal when the thread that started it ends, not when the program does, and Go
// ends threads as it likes.
type spawner struct {
	orphans  *orphans // nil if orphans are not looked after
	elevate  bool     // processes may gain rights by what they start
	confine  Confinement
	gaps     sync.Once // said what cannot be kept from processes
	log      *slog.Logger
	null     int // an input that ends at once, or -1
	requests chan *request
	threads  sync.WaitGroup
}

type request struct {
	file  string
	argv  []string
	dir   string
	env   []string
	open  bool // the standard input stays open
	alone bool // it gets a thread of its own, until over is closed
	own   bool // it keeps the rights of this program, on a thread of its own
	over  chan struct{}
	as    *syscall.Credential // nil for our own user
	lim   *limits

	files [3]uintptr
	reply chan reply
}

type reply struct {
	pid, pidfd int
	err        error
}

func startSpawner(o *orphans, elevate bool, c Confinement, log *slog.Logger) *spawner {
	s := &spawner{orphans: o, elevate: elevate, confine: c, log: log, requests: make(chan *request)}
	null, err := syscall.Open(os.DevNull, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		null = -1 // then each process gets a closed pipe
	}
	s.null = null
	for range min(runtime.GOMAXPROCS(0), maxThreads) {
		s.threads.Go(func() { s.onThread(true, s.serve) })
	}
	return s
}

// onThread calls do on a thread that is confined, if it shall be, and ends with it.
func (s *spawner) onThread(confined bool, do func()) {
	runtime.LockOSThread() // for good: the thread ends with this goroutine
	if onMainThread() {
		// Orphans become children of this thread; our own children must not be among them.
		elsewhere := make(chan struct{})
		go func() { defer close(elsewhere); s.onThread(confined, do) }()
		<-elsewhere
		runtime.UnlockOSThread() // nothing was changed on it
		return
	}
	if !confined {
		do()
		return
	}
	if gaps := s.confine.confine(s.elevate); len(gaps) > 0 {
		s.gaps.Do(func() {
			s.log.Info("this machine does not keep all from tasks that it could", "gaps", strings.Join(gaps, "; "))
		})
	}
	do()
}

func (s *spawner) serve() {
	for r := range s.requests {
		r.reply <- s.fork(r)
	}
}

// serveAlone starts one process.
func (s *spawner) serveAlone(r *request) {
	got := s.fork(r)
	r.reply <- got
	if got.err == nil {
		<-r.over
	}
}

func (s *spawner) fork(r *request) reply {
	pidfd := -1
	sys := attributes(&pidfd)
	sys.Credential = r.as
	r.lim.attributes(sys)
	closeOnExec()
	if s.orphans != nil {
		s.orphans.births.RLock()
		defer s.orphans.births.RUnlock()
	}
	pid, err := syscall.ForkExec(r.file, r.argv, &syscall.ProcAttr{Dir: r.dir, Env: r.env, Files: r.files[:], Sys: sys})
	if err != nil {
		return reply{-1, -1, err}
	}
	if s.orphans != nil {
		s.orphans.born(pid)
	}
	if !r.lim.none() {
		setRlimits(pid, r.lim)
	}
	return reply{pid, pidfd, nil}
}

// stop ends the threads; there must be no children left.
func (s *spawner) stop() {
	close(s.requests)
	s.threads.Wait()
	if s.null >= 0 {
		syscall.Close(s.null)
	}
}

// start starts a process. An error is the kernel's.
func (s *spawner) start(r *request) (*Running, error) {
	var fds [6]int // read and write ends of stdin, stdout, stderr
	none := !r.open && s.null >= 0
	if none {
		fds[0], fds[1] = s.null, -1
	}
	for i := 0; i < len(fds); i += 2 {
		if none && i == 0 {
			continue
		}
		if err := pipe(fds[i : i+2]); err != nil {
			closeAll(fds[:i], s.null)
			return nil, err
		}
	}
	theirs := [3]int{fds[0], fds[3], fds[5]}
	ours := [3]int{fds[1], fds[2], fds[4]}
	for i, fd := range theirs {
		r.files[i] = uintptr(fd)
	}
	if r.reply == nil {
		r.reply = make(chan reply, 1)
	}
	if r.own || r.alone && !s.confine.Open {
		s.threads.Go(func() { s.onThread(!r.own, func() { s.serveAlone(r) }) })
	} else {
		s.requests <- r
	}
	got := <-r.reply
	closeAll(theirs[:], s.null)
	if got.err != nil {
		closeAll(ours[:], s.null)
		return nil, got.err
	}
	if !r.open && !none {
		closeAll(ours[:1], s.null)
		ours[0] = -1
	}
	for _, fd := range ours {
		if fd >= 0 {
			unblock(fd)
		}
	}
	return &Running{
		orphans: s.orphans,
		PID:     got.pid, pidfd: got.pidfd, in: stdin{fd: ours[0]}, lim: r.lim,
		stdout: newOutput(ours[1]), stderr: newOutput(ours[2]),
	}, nil
}

// closeAll closes the descriptors that are open, except keep.
func closeAll(fds []int, keep int) {
	for _, fd := range fds {
		if fd >= 0 && fd != keep {
			syscall.Close(fd)
		}
	}
}

// IgnoringEINTR repeats a system call that a signal has interrupted.
func IgnoringEINTR(call func() error) error {
	for {
		if err := call(); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
