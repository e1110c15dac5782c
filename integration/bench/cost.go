package bench

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"millrace/task/value"
)

// Cost is the processor time of one task, in microseconds. It suffers less from a noisy machine
// than any rate. It is 0 on systems that do not report it.
type Cost struct {
	// Server is the server process's part: log, scheduler and read model.
	Server float64 `json:"server_us"`
	// Worker is the part of the process with the worker and the client.
	Worker float64 `json:"worker_us"`
}

// medianCost returns the median, by the sum of both parts.
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

// each returns what each of n tasks has cost since.
func (b *bench) each(since spent, n int) Cost {
	now := b.spent()
	per := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(n) }
	return Cost{Server: per(now.server - since.server), Worker: per(now.worker - since.worker)}
}

// tick is the unit in which Linux counts the processor time of processes.
const tick = 10 * time.Millisecond

// processorTime returns the processor time of a process with all its threads; pid is its number or
// "self".
func processorTime(pid string) (time.Duration, error) {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0, err
	}
	// The second field is the program's name, in brackets, and may hold anything. The third follows
	// the brackets; the 14th and 15th are the user and system times.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%s/stat has %d fields, want 15 or more", pid, len(fields)+2)
	}
	var sum time.Duration
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/%s/stat: %w", pid, value.Plainly(err))
		}
		sum += time.Duration(n) * tick
	}
	return sum, nil
}
