package child

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// A daemon that has cleared its environment bears no mark by which the guard could know it. While
// the worker lives, the daemon is the worker's child, as all orphans are. So the worker regularly
// tells the guard which orphans there are and when each started, for the kernel may reuse a number.

// tellOrphans tells the guard the current orphans.
func (w *watch) tellOrphans(pids []int) {
	slices.Sort(pids)
	var words []string
	for _, pid := range pids {
		if start, err := StartOf(pid); err == nil {
			words = append(words, fmt.Sprintf("%d:%d", pid, start))
		}
	}
	text := strings.Join(words, " ") + "\n"
	if g := w.current(); g.told != text {
		g.told = text
		_, _ = g.in.Write([]byte(text)) // if this guard is gone, the next one is told
	}
}

// endOrphans kills the orphans that the worker listed last, and all their descendants.
func endOrphans(told string) {
	found := map[int]uint64{}
	for word := range strings.FieldsSeq(told) {
		a, b, _ := strings.Cut(word, ":")
		pid, err1 := strconv.Atoi(a)
		start, err2 := strconv.ParseUint(b, 10, 64)
		if err1 == nil && err2 == nil && pid > 1 {
			found[pid] = start
		}
	}
	if len(found) == 0 {
		return
	}
	same := func(pid int) bool {
		start, err := StartOf(pid)
		return err == nil && start == found[pid]
	}
	for pid := range found {
		if !same(pid) {
			delete(found, pid)
		}
	}
	// While they are suspended they start no further processes, so their descendants can be
	// collected.
	stopped := map[int]bool{}
	for more := true; more; {
		more = false
		for pid := range found {
			if !stopped[pid] {
				stopped[pid], more = true, true
				signalIf(pid, syscall.SIGSTOP, same)
			}
		}
		for pid := range processes() {
			state, err := readStat(pid)
			if _, below := found[state.parent]; err != nil || !below || found[pid] != 0 || state.ended() {
				continue
			}
			if start, err := StartOf(pid); err == nil {
				found[pid] = start
			}
		}
	}
	for pid := range found {
		signalIf(pid, syscall.SIGKILL, same)
	}
}
