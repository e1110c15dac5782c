package child

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// orphans are daemons: processes that a task has started and that have left its group. When their
// parent ends, the kernel makes them children of this program, which is a subreaper. To check
// whether there are any costs one small read.
type orphans struct {
	file *os.File // lists the children of the thread that gets them
	name string

	// births is held for reading while a process is started and registered, so that a child of our
	// own never counts as an orphan.
	births sync.RWMutex
	mu     sync.Mutex
	own    map[int]bool // guarded by mu
	runs   uint64       // guarded by mu; so far
	active int          // guarded by mu

	ctx  context.Context
	told func(pids []int) // is called with the current orphans; may be nil
	stop context.CancelFunc
	done chan struct{}
}

// reapEvery is how often orphans that have ended are reaped.
const reapEvery = time.Second

// startOrphans makes this program the parent of all orphans among its descendants.
func startOrphans() (*orphans, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become the parent of orphaned processes: %w", err)
	}
	file, err := os.Open(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid()))
	if err != nil {
		return nil, fmt.Errorf("list the children of this process: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &orphans{file: file, name: rand.Text(), own: map[int]bool{}, ctx: ctx, stop: cancel, done: make(chan struct{})}, nil
}

// look begins to reap orphans, and to report the current ones to told.
func (o *orphans) look(told func(pids []int)) {
	o.told = told
	go o.reapAll(o.ctx)
}

func (o *orphans) close() {
	o.stop()
	<-o.done
	o.file.Close()
}

// begin returns the mark of a run.
func (o *orphans) begin() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.runs++
	o.active++
	return RunVar + "=" + o.name + "." + strconv.FormatUint(o.runs, 10)
}

func (o *orphans) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.active--
}

// born registers a child of our own; gone forgets it before its number can be reused.
func (o *orphans) born(pid int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.own[pid] = true
}

func (o *orphans) gone(pid int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.own, pid)
}

// list returns the current orphans, zombies included.
func (o *orphans) list() []int {
	var buf [512]byte
	n, err := o.file.ReadAt(buf[:], 0)
	if n == 0 {
		return nil // nearly always
	}
	text := buf[:n]
	if err == nil { // there are more than one
		rest, err := io.ReadAll(io.NewSectionReader(o.file, int64(n), 1<<20))
		if err != nil {
			return nil
		}
		text = append(text, rest...)
	}
	var pids []int
	for field := range bytes.FieldsSeq(text) {
		if pid, err := strconv.Atoi(string(field)); err == nil {
			pids = append(pids, pid)
		}
	}
	if pids = o.strangers(pids); len(pids) == 0 {
		return nil // only the guard
	}
	o.births.Lock() // a child that is being started is registered once we hold this
	defer o.births.Unlock()
	return o.strangers(pids)
}

// strangers leaves out our own children.
func (o *orphans) strangers(pids []int) []int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.DeleteFunc(pids, func(pid int) bool { return o.own[pid] })
}

// reapAll reaps ended orphans until ctx ends, so that no zombies stay.
func (o *orphans) reapAll(ctx context.Context) {
	defer close(o.done)
	ticker := time.NewTicker(reapEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			live := slices.DeleteFunc(o.list(), o.reap)
			if o.told != nil {
				o.told(live)
			}
		}
	}
}

// reap reaps an orphan if it has ended, and tells whether it is gone.
func (o *orphans) reap(pid int) bool {
	o.births.Lock() // by now the number may belong to a child of ours
	defer o.births.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.own[pid] {
		return true
	}
	var got int
	err := IgnoringEINTR(func() (err error) {
		got, err = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		return err
	})
	return got == pid || errors.Is(err, syscall.ECHILD)
}

// maxLooks bounds the looks at processes that cannot be judged: some never have an environment, and
// of some only the first thread has ended.
const maxLooks = 5

// clear ends the orphans of a run: it asks them to end, and kills them at the deadline, or at once
// if that has passed. It returns how many survive that.
func (o *orphans) clear(mark string, deadline time.Time) (survivors int) {
	asked, killed, looks := map[int]bool{}, false, 0
	ends := time.Now().Add(killBound) // of the wait for those that exit
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		survivors = 0
		reaped := false // then its children may be ours by now
		open := false   // the owner of one is unknown, or it has just ended
		exits := false  // the kernel is taking one away; on a busy machine that takes a while
		kill := !time.Now().Before(deadline)
		for _, pid := range o.list() {
			if o.reap(pid) {
				reaped = true
				continue
			}
			mine, unsure := o.belongs(pid, mark)
			if !mine {
				if open = open || unsure; unsure {
					s, err := readStat(pid)
					exits = exits || err == nil && s.exits && !s.ended()
				}
				continue
			}
			if s, err := readStat(pid); err == nil && s.ended() && looks < maxLooks {
				open = true
				continue
			}
			survivors++
			switch {
			case kill:
				signalIf(pid, syscall.SIGKILL, o.isOrphan(mark))
			case !asked[pid]:
				asked[pid] = true
				signalIf(pid, syscall.SIGTERM, o.isOrphan(mark))
			}
		}
		switch {
		case survivors > 0:
		case reaped:
			continue
		case exits && time.Now().Before(ends):
		case open && looks < maxLooks:
			looks++
		default:
			return 0
		}
		if kill {
			if killed && time.Now().After(deadline.Add(killBound)) {
				return survivors
			}
			if !killed {
				killed, deadline = true, time.Now()
				pause = time.Millisecond
			}
		}
		time.Sleep(pause)
	}
}

func (o *orphans) isOrphan(mark string) func(pid int) bool {
	return func(pid int) bool {
		mine, _ := o.belongs(pid, mark)
		return mine
	}
}

// belongs tells whether an orphan belongs to a run. An orphan that has cleared its environment
// belongs to the run that ends last. unsure means that it has no environment at the moment: it has
// cleared it, or is in the middle of an exec, or is ending.
func (o *orphans) belongs(pid int, mark string) (mine, unsure bool) {
	environ, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	switch {
	case err != nil:
		return false, true
	case holds(environ, []byte(mark)):
		return true, false
	case bytes.Contains(environ, []byte(RunVar+"="+o.name)):
		return false, false // it belongs to another run
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.active == 1, len(environ) == 0
}
