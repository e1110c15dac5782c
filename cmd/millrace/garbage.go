package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// The runtime's own share, as much garbage as there is in use, has a busy server collect many times a second
// while its heap is small, which cost a tenth of all processor time, and mark a million tasks in the far
// future again and again when it is large, which cost as much. So garbage may be maxPercent of what is in
// use as long as it is below a part of the memory that the process may have; beyond that the runtime's
// share holds, and where memory runs short less than that.
const (
	leastSpare = 256 << 20
	sparePart  = 10 // of the memory
	maxPercent = 400
	minPercent = 100
	// memoryRatio is the part of the memory from which on the runtime collects whatever it costs.
	memoryRatio = 0.8
	// weighEvery is how often it is looked at what is in use.
	weighEvery = 5 * time.Second
)

// garbagePercent is how much garbage may lie about, in per cent of the bytes in use, where memory is so many
// bytes, or 0 if that is not known.
func garbagePercent(used, memory uint64) int {
	if used == 0 {
		return maxPercent
	}
	spare := max(leastSpare, memory/sparePart)
	return int(min(max(spare*100/used, minPercent), maxPercent))
}

// memory is how many bytes this process may have, of its control group or of the machine; 0 if neither can tell.
func memory() uint64 {
	n, err := memlimit.ApplyFallback(memlimit.FromCgroup, memlimit.FromSystem)()
	if err != nil {
		return 0
	}
	return n
}

// easeCollection sets the runtime's garbage collection by what is in use and what there is, until
// ctx ends. Whoever sets GOGC or GOMEMLIMIT has decided that for themselves.
func easeCollection(ctx context.Context) error {
	all := memory()
	if all > 0 {
		_, _ = memlimit.Set(memlimit.WithProvider(memlimit.Limit(all)), memlimit.WithRatio(memoryRatio)) // without it is as it was
	}
	if os.Getenv("GOGC") != "" {
		return nil
	}
	used := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	tick := time.NewTicker(weighEvery)
	defer tick.Stop()
	for percent := 0; ; {
		metrics.Read(used)
		if now := garbagePercent(used[0].Value.Uint64(), all); now != percent {
			percent = now
			debug.SetGCPercent(percent)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
