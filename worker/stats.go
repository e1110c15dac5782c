package worker

import (
	"context"
	"math"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"millrace/task/node"
)

// Stats is what a worker does at the moment, and its counters since it began.
type Stats struct {
	// Slots is how many tasks it can run at once; Busy is how many run.
	Slots, Busy int
	// Fetching tells whether it asks for work and the last answer was no error.
	Fetching bool
	// LastBeat is when its last heartbeat was stored; zero for never.
	LastBeat time.Time
	// Counts of leases that were extended, and of failed extensions.
	LeasesExtended, LeasesNot uint64
	// Counts of heartbeats that were stored, and of those that failed.
	HeartbeatsStored, HeartbeatsLost uint64
}

// Stats returns the worker's current figures. Safe for concurrent use, also while Run is not
// running.
func (w *Worker) Stats() Stats {
	c := &w.counts
	s := Stats{
		Slots: w.cfg.Slots, Busy: w.leases.count(), Fetching: c.pulling.Load() && !c.refused.Load(),
		LeasesExtended: c.extensions.Load(), LeasesNot: c.extensionsLost.Load(),
		HeartbeatsStored: c.beats.Load(), HeartbeatsLost: c.beatsLost.Load(),
	}
	if at := c.lastBeat.Load(); at != nil {
		s.LastBeat = *at
	}
	return s
}

// counts are the counters behind [Worker.Stats].
type counts struct {
	pulling                    atomic.Bool // slots ask for work as soon as they are free
	refused                    atomic.Bool // the last request got an error
	extensions, extensionsLost atomic.Uint64
	beats, beatsLost           atomic.Uint64
	lastBeat                   atomic.Pointer[time.Time]
}

// asked notes the outcome of a request for work. A request that the node itself broke off, as it
// does at each interruption, does not count: else an idle worker would count as refused until the
// next task.
func (c *counts) asked(err error, asking context.Context) {
	if refused := err != nil && asking.Err() == nil; c.refused.Load() != refused {
		c.refused.Store(refused)
	}
}

func (c *counts) extended(err error) {
	if err != nil {
		c.extensionsLost.Add(1)
		return
	}
	c.extensions.Add(1)
}

// countedBeats counts the heartbeats that are stored.
type countedBeats struct {
	Nodes
	counts *counts
}

func (s countedBeats) Beat(ctx context.Context, id node.ID, h node.Heartbeat, ttl time.Duration) error {
	err := s.Nodes.Beat(ctx, id, h, ttl)
	if err != nil {
		s.counts.beatsLost.Add(1)
		return err
	}
	now := time.Now()
	s.counts.beats.Add(1)
	s.counts.lastBeat.Store(&now)
	return nil
}

// machine measures the machine that the worker runs on. Where the kernel is not Linux it knows nothing.
type machine struct {
	last ticks
	busy float64
}

// ticks are the times of all processors since the machine started, in the kernel's ticks.
type ticks struct{ all, idle uint64 }

// fewTicks are too few to tell how busy the processors were: half a second of one processor.
const fewTicks = 50

// measure returns what the machine has and uses; the first time, how busy it was since it started.
func (m *machine) measure() node.Machine {
	processors, is := ticksOf(read("/proc/stat"))
	if is.all < m.last.all {
		m.last = ticks{}
	}
	if all := is.all - m.last.all; all >= fewTicks {
		idle := min(is.idle-min(is.idle, m.last.idle), all) // the kernel's count may step back
		m.busy, m.last = math.Round(100*(1-float64(idle)/float64(all)))/100, is
	}
	of := node.Machine{Processors: processors, Busy: m.busy}
	of.Memory, of.MemoryUsed = memoryOf(read("/proc/meminfo"))
	return of
}

func read(file string) string {
	text, _ := os.ReadFile(file) // what is not there is not measured
	return string(text)
}

// ticksOf reads the times of the processors in /proc/stat, see proc_stat(5), and counts them.
func ticksOf(text string) (processors int, is ticks) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		switch {
		case len(fields) < 6 || !strings.HasPrefix(fields[0], "cpu"):
			return processors, is
		case fields[0] != "cpu":
			processors++
			continue
		}
		for i, field := range fields[1:min(len(fields), 9)] { // guests count as users, too
			n, _ := strconv.ParseUint(field, 10, 64)
			if is.all += n; i == 3 || i == 4 { // idle, and idle until a disk answers
				is.idle += n
			}
		}
	}
	return processors, is
}

// memoryOf reads in /proc/meminfo, see proc_meminfo(5), how many bytes there are, and how many a new program
// could not have.
func memoryOf(text string) (all, used int64) {
	of := map[string]int64{}
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) == 3 {
			n, _ := strconv.ParseInt(fields[1], 10, 64)
			of[fields[0]] = n << 10
		}
	}
	free, known := of["MemAvailable:"]
	if all = of["MemTotal:"]; !known || free > all {
		return 0, 0
	}
	return all, all - free
}
