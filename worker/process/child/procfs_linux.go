package child

import (
	"bytes"
	"errors"
	"iter"
	"os"
	"strconv"
	"syscall"
)

// processes yields the numbers of all processes there are.
func processes() iter.Seq[int] {
	return func(yield func(int) bool) {
		dir, err := os.Open("/proc")
		if err != nil {
			return
		}
		defer dir.Close()
		for {
			names, err := dir.Readdirnames(1024)
			for _, name := range names {
				if pid, err := strconv.Atoi(name); err == nil && !yield(pid) {
					return
				}
			}
			if err != nil {
				return
			}
		}
	}
}

// stat is the part of a process's state that this package uses.
type stat struct {
	state   byte
	parent  int
	group   int
	kernel  bool // it is a thread of the kernel
	exits   bool // the kernel is taking it away
	threads int
	rss     int64 // pages
}

// ended tells whether the process only waits to be reaped.
func (s stat) ended() bool { return s.state == 'Z' || s.state == 'X' }

var errStat = errors.New("the state of a process has an unknown form")

func readStat(pid int) (stat, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, err
	}
	return parseStat(text)
}

// Of the kernel's flags of a process: PF_KTHREAD, and PF_EXITING.
const (
	kernelThread = 0x00200000
	exiting      = 0x00000004
)

// parseStat reads "pid (name) state parent group session tty tpgid flags …".
// The name may hold anything.
func parseStat(text []byte) (stat, error) {
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 7 {
		return stat{}, errStat
	}
	group, err := strconv.Atoi(string(fields[2]))
	if err != nil {
		return stat{}, errStat
	}
	flags, err := strconv.ParseUint(string(fields[6]), 10, 64)
	if err != nil {
		return stat{}, errStat
	}
	s := stat{state: fields[0][0], group: group, kernel: flags&kernelThread != 0, exits: flags&exiting != 0}
	s.parent, _ = strconv.Atoi(string(fields[1])) // of little weight
	if len(fields) > 21 {
		s.threads, _ = strconv.Atoi(string(fields[17]))
		s.rss, _ = strconv.ParseInt(string(fields[21]), 10, 64)
	}
	return s, nil
}

// heedsTerm tells whether a process handles, ignores or blocks SIGTERM, or may.
func heedsTerm(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	return err != nil || parseHeeds(text, syscall.SIGTERM)
}

// parseHeeds reads the masks of signals, of which each is a line "SigCgt:\t<hex>".
func parseHeeds(text []byte, signal syscall.Signal) bool {
	for line := range bytes.Lines(text) {
		name, mask, _ := bytes.Cut(line, []byte{':'})
		switch string(name) {
		case "SigBlk", "SigIgn", "SigCgt":
			bits, err := strconv.ParseUint(string(bytes.TrimSpace(mask)), 16, 64)
			if err != nil || bits&(1<<(signal-1)) != 0 {
				return true
			}
		}
	}
	return false
}

// StartOf is when a process started, in ticks since the machine did.
func StartOf(pid int) (uint64, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return 0, errStat
	}
	return strconv.ParseUint(string(fields[19]), 10, 64)
}
