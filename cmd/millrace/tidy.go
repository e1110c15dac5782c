package main

import (
	"context"
	"runtime/debug"
	"time"
)

// A server gives memory back when nothing has happened for so long: blocks of messages are reused and
// outlive some collections, and what the NATS server has indexed of the latest ones goes after two minutes.
var restTimes = [...]time.Duration{20 * time.Second, 40 * time.Second, time.Minute, 125 * time.Second}

// restLook is how often it is looked whether anything has happened.
const restLook = 5 * time.Second

// tidy collects garbage and gives memory back to the system each time the log has come to rest. By itself
// the runtime would keep what it has: fine while there is work, a waste for a server that then waits for
// the next day.
func tidy(ctx context.Context, reached func() uint64) error {
	tick := time.NewTicker(restLook)
	defer tick.Stop()
	last, since := reached(), time.Now()
	rested := len(restTimes) // how often memory was given back since the log came to rest
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
		if rested < len(restTimes) && time.Since(since) >= restTimes[rested] {
			debug.FreeOSMemory()
			rested++
		}
	}
}
