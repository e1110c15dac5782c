package child

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// setRlimits bounds a process that has just been started. What it started in the microseconds
// before stays unbounded.
func setRlimits(pid int, l *limits) {
	set := func(resource int, n uint64) {
		if unix.Prlimit(pid, resource, &unix.Rlimit{Cur: n, Max: n}, nil) != nil {
			l.missed = append(l.missed, "an rlimit of the process")
		}
	}
	if n := l.want.FileSize; n > 0 {
		set(unix.RLIMIT_FSIZE, uint64(n))
	}
	if l.want.Memory > 0 && l.group == nil {
		// No rlimit bounds used memory without also refusing reserved memory. If the process
		// outruns the watcher, the kernel must choose it and not the worker.
		_ = os.WriteFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", []byte("1000"), 0)
	}
}

// watcher checks the memory and the number of processes of all runs without a control group, in one
// walk over the processes.
type watcher struct {
	runs map[*watched]bool
	add  chan *watched
	drop chan *watched
	done chan struct{}
}

// watched is a run that the watcher checks.
type watched struct {
	pid    int
	limits *limits
	over   func(what string)
	peak   atomic.Int64 // the most memory seen
	told   bool
}

// watchEvery is the shortest time from one look to the next, and watchShare the share of a
// processor that looking may take.
const (
	watchEvery = 50 * time.Millisecond
	watchShare = 20
)

func startWatcher() *watcher {
	w := &watcher{runs: map[*watched]bool{}, add: make(chan *watched), drop: make(chan *watched), done: make(chan struct{})}
	go w.run()
	return w
}

func (w *watcher) close() {
	close(w.add)
	<-w.done
}

func (w *watcher) run() {
	defer close(w.done)
	var look <-chan time.Time
	for {
		select {
		case r, open := <-w.add:
			if !open {
				return
			}
			w.runs[r] = true
		case r := <-w.drop:
			delete(w.runs, r)
		case <-look:
			began := time.Now()
			w.look()
			look = time.After(max(watchEvery, watchShare*time.Since(began)))
		}
		switch {
		case len(w.runs) == 0:
			look = nil
		case look == nil:
			look = time.After(watchEvery)
		}
	}
}

// look adds up the memory and processes of each run.
func (w *watcher) look() {
	parents := map[int]int{}
	groups := map[int]int{}
	for pid := range processes() {
		if s, err := readStat(pid); err == nil && !s.ended() && !s.kernel {
			parents[pid], groups[pid] = s.parent, s.group
		}
	}
	leaders := map[int]*watched{}
	for r := range w.runs {
		leaders[r.pid] = r
	}
	held, count := map[*watched]int64{}, map[*watched]int{}
	for pid := range parents {
		var of *watched
		for at, steps := pid, 0; at > 1 && steps < 64; at, steps = parents[at], steps+1 {
			if r := leaders[at]; r != nil {
				of = r
				break
			}
			if r := leaders[groups[at]]; r != nil {
				of = r
				break
			}
		}
		if of != nil {
			rss, threads := holding(pid)
			held[of] += rss
			count[of] += threads
		}
	}
	for r := range w.runs {
		if held[r] > r.peak.Load() {
			r.peak.Store(held[r])
		}
		want := &r.limits.want
		switch {
		case r.told:
		case want.Memory > 0 && held[r] > int64(want.Memory):
			r.told = true
			r.over(overMemory)
		case want.PIDs > 0 && count[r] > want.PIDs:
			r.told = true
			r.over(overPIDs)
		}
	}
}

// Bounds that a run can exceed.
const (
	overMemory = "memory"
	overPIDs   = "pids"
)

// holding returns the memory of a process, in bytes, and the number of its threads.
func holding(pid int) (rss int64, threads int) {
	s, err := readStat(pid)
	if err != nil {
		return 0, 0
	}
	return s.rss * int64(syscall.Getpagesize()), s.threads
}

// attributes make a process start in its control group.
func (l *limits) attributes(sys *syscall.SysProcAttr) {
	if l.group != nil {
		sys.UseCgroupFD, sys.CgroupFD = true, l.group.fd
	}
}

// kernelKills tells whether the kernel has recently killed processes of this machine for lack of
// memory.
type kernelKills struct {
	mu    sync.Mutex
	count string    // guarded by mu
	at    time.Time // guarded by mu; when it was last seen to grow
}

// killsFor is how long after such a kill the end of another process counts as due to the same lack
// of memory.
const killsFor = 5 * time.Second

func newKernelKills() *kernelKills { return &kernelKills{count: oomKills()} }

// lately tells whether there was such a kill within killsFor.
func (k *kernelKills) lately() bool {
	count := oomKills()
	k.mu.Lock()
	defer k.mu.Unlock()
	if count != k.count {
		k.count, k.at = count, time.Now()
	}
	return !k.at.IsZero() && time.Since(k.at) < killsFor
}

// oomKills returns the kernel's own count, as text; "" if it has none.
func oomKills() string {
	text, err := os.ReadFile("/proc/vmstat")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if count, ok := strings.CutPrefix(line, "oom_kill "); ok {
			return strings.TrimSpace(count)
		}
	}
	return ""
}
