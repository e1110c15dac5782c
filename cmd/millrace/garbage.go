package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// While the heap is small the runtime collects garbage many times a second under
// load, which cost a tenth of all processor time. So garbage may be maxPercent of
// what is in use as long as it is below spare; beyond that the runtime's usual
// share holds, and a process of gigabytes grows no larger than without.
const (
	spare      = 256 << 20
	maxPercent = 400
	minPercent = 100
	// weighEvery is how often it is looked at what is in use.
	weighEvery = 5 * time.Second
)

// garbagePercent is how much garbage may lie about, in per cent of the bytes in use.
func garbagePercent(used uint64) int {
	if used == 0 {
		return maxPercent
	}
	return int(min(max(spare*100/used, minPercent), maxPercent))
}

// easeCollection sets the runtime's garbage collection by what is in use, until
// ctx ends. Whoever sets GOGC has decided for themselves.
func easeCollection(ctx context.Context) error {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	used := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	tick := time.NewTicker(weighEvery)
	defer tick.Stop()
	for percent := 0; ; {
		metrics.Read(used)
		if now := garbagePercent(used[0].Value.Uint64()); now != percent {
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
