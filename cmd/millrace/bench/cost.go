package bench

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"
)

// Cost is the processor time of one task, in microseconds. Machines are noisy, and this is so less than
// any rate. It is 0 where the system does not tell.
type Cost struct {
	// Server is that of the server's process: log, scheduler and read model.
	Server float64 `json:"server_us"`
	// Worker is that of the process in which worker and client are.
	Worker float64 `json:"worker_us"`
}

// medianCost is the one in the middle, by the sum of both.
func medianCost(all []Cost) Cost {
	slices.SortFunc(all, func(a, b Cost) int { return cmp.Compare(a.Server+a.Worker, b.Server+b.Worker) })
	return all[len(all)/2]
}

// spent is the processor time that the two processes have used so far.
type spent struct{ server, worker time.Duration }

func (b *bench) spent() spent {
	var s spent
	if b.cfg.ServerTime != nil {
		s.server, _ = b.cfg.ServerTime() // else it is not measured
	}
	s.worker, _ = processorTime("self")
	return s
}

// each is what every one of n tasks has cost since.
func (b *bench) each(since spent, n int) Cost {
	now := b.spent()
	per := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(n) }
	return Cost{Server: per(now.server - since.server), Worker: per(now.worker - since.worker)}
}

// tick is the unit in which Linux counts the processor time of processes.
const tick = 10 * time.Millisecond

// processorTime is that of a process and of all its threads, by its number or "self".
func processorTime(pid string) (time.Duration, error) {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0, err
	}
	// The second field is the program's name, in brackets, and may hold anything. What follows
	// begins with the third; the 14th and 15th are the times of the program and of the system for it.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%s/stat has %d fields, want 15 or more", pid, len(fields)+2)
	}
	var sum time.Duration
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/%s/stat: %w", pid, err)
		}
		sum += time.Duration(n) * tick
	}
	return sum, nil
}

// Time is the processor time that the server has used.
func (s *Server) Time() (time.Duration, error) {
	return processorTime(strconv.Itoa(s.cmd.Process.Pid))
}
