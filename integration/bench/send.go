package bench

import (
	"context"
	"iter"
	"time"

	"golang.org/x/sync/errgroup"

	"millrace/integration/load"
)

// How many goroutines submit arrivals, and how many due arrivals one of them takes in one call.
const (
	sendHands = 32
	sendBatch = 256
)

// send submits arrivals when they are due, or ahead of that if asked to. It waits for no answer
// while a goroutine is free. If none is, due arrivals go as soon as one is free: latencies count
// from the times of the plan, so they include that delay.
func send(ctx context.Context, plan iter.Seq[load.Arrival], begin time.Time, ahead time.Duration, hands int, hand func(context.Context, []load.Arrival) error) error {
	g, handing := errgroup.WithContext(ctx)
	g.SetLimit(hands)
	var batch []load.Arrival
	flush := func() {
		if due := batch; len(due) > 0 {
			batch = nil
			g.Go(func() error { return hand(handing, due) })
		}
	}
	for a := range plan {
		if wait := time.Until(begin.Add(a.At - ahead)); wait > 0 {
			flush()
			if sleep(handing, wait) != nil {
				break
			}
		}
		if batch = append(batch, a); len(batch) == sendBatch {
			flush()
		}
	}
	flush()
	if err := g.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}
