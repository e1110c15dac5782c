package child

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// A daemon that has cleared its environment bears no mark by which the guard could know it. While the
// worker lives it is the worker's child, as all orphans are; so the worker tells the guard now and then
// which those are, and since when they are there, for a number alone may pass to another.

// tellOrphans has the guard know the orphans there are at the moment.
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
		_, _ = g.in.Write([]byte(text)) // if it is gone the next one is told
	}
}

// endOrphans kills the orphans that a worker has told of last, and all below them.
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
	// Suspended, they start no others while it is looked who is below them.
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
