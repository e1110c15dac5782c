package main

import (
	"context"
	"runtime/debug"
	"time"
)

// atRest is how long nothing may have happened before an idle server gives back
// what it needed while it was busy.
const atRest = 20 * time.Second

// tidy collects garbage and gives memory back to the system each time the log
// has come to rest. By itself the runtime would keep twice what is in use: fine
// while there is work, a waste for a server that then waits for the next day.
func tidy(ctx context.Context, reached func() uint64) error {
	tick := time.NewTicker(atRest)
	defer tick.Stop()
	var last, tidied uint64
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		now := reached()
		if now == last && now != tidied {
			debug.FreeOSMemory()
			tidied = now
		}
		last = now
	}
}
