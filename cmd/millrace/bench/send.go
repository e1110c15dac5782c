package bench

import (
	"context"
	"iter"
	"time"

	"golang.org/x/sync/errgroup"

	"millrace/cmd/millrace/load"
)

// How many hand arrivals over at the same time, and how many of those that are due one of them takes at once.
const (
	sendHands = 32
	sendBatch = 256
)

// send hands arrivals over when they are due, a time before that if they are to be known ahead. It waits
// for no answer while a hand is free. If none is, what is due goes as soon as one is: whoever counts from
// the times of the plan sees all of that delay.
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
			if pause(handing, wait) != nil {
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
