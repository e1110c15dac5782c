package main

import (
	"context"
	"runtime/debug"
	"time"
)

// A server is at rest when nothing has happened for atRest. What the log keeps at hand in case it goes on
// is let go in steps: blocks of messages are reused and outlive some collections, and what was indexed of
// the latest blocks goes within lettingGo.
const (
	atRest    = 20 * time.Second
	fewTimes  = 3
	lettingGo = 130 * time.Second
)

// tidy collects garbage and gives memory back to the system a few times when the log has come to rest, and
// once more when the log has let go of its caches. By itself the runtime would keep what it has: fine
// while there is work, a waste for a server that then waits for the next day.
func tidy(ctx context.Context, reached func() uint64) error {
	tick := time.NewTicker(atRest)
	defer tick.Stop()
	last, since := reached(), time.Now()
	rested := fewTimes + 1 // how often memory was given back since the log came to rest
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
		if rested < fewTimes || rested == fewTimes && time.Since(since) >= lettingGo {
			debug.FreeOSMemory()
			rested++
		}
	}
}
