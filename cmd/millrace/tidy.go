package main

import (
	"context"
	"runtime/debug"
	"time"
)

// A server is at rest when nothing has happened for atRest. What the log keeps
// at hand in case it goes on is let go within lettingGo after that.
const (
	atRest    = 20 * time.Second
	lettingGo = 3 * time.Minute
)

// tidy collects garbage and gives memory back to the system each time the log
// has come to rest, and once more when the log has let go of its caches. By itself the runtime would keep twice what is in use: fine
// while there is work, a waste for a server that then waits for the next day.
func tidy(ctx context.Context, reached func() uint64) error {
	tick := time.NewTicker(atRest)
	defer tick.Stop()
	last, since := reached(), time.Now()
	rested := 2 // how often memory was given back since the log came to rest
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if now := reached(); now != last {
			last, since, rested = now, time.Now(), 0
			continue
		}
		if rest := time.Since(since); rested == 0 || rested == 1 && rest >= lettingGo {
			debug.FreeOSMemory()
			rested++
		}
	}
}
