package connect

import (
	"context"
	"errors"
	"time"

	"millrace/events"
	"millrace/service/client"
)

// Span reads the log from a sequence (0 or 1 for the beginning) to another one, or to its present
// end, and passes the records to each. It never stops early: it waits until it has read the whole
// range.
func (a *App) Span(ctx context.Context, c *client.Client, from, to uint64, each func(*events.Record) error) error {
	last := func() (uint64, error) {
		asking, cancel := a.Asking(ctx)
		defer cancel()
		return c.Last(asking)
	}
	end, err := last()
	if err != nil {
		return err
	}
	if to > 0 {
		end = min(end, to)
	}
	for next := max(from, 1); next <= end; {
		reached, err := a.spanQuiet(ctx, c, next, end, each)
		if err != nil || reached == end {
			return err
		}
		// The last messages may have been timers that are gone; or the server is slow, and some
		// messages are still to come.
		now, err := last()
		if err != nil {
			return err
		}
		next, end = max(next, reached+1), min(end, now)
	}
	return nil
}

// spanQuiet passes the records of a range to each until it has seen the last one or nothing comes
// for a while, and returns how far it came: end if the range is complete.
func (a *App) spanQuiet(ctx context.Context, c *client.Client, from, end uint64, each func(*events.Record) error) (uint64, error) {
	feed, err := c.Follow(ctx, from)
	if err != nil {
		return 0, err
	}
	defer feed.Close()
	ctx, stop := context.WithCancel(ctx)
	batches, done := readAhead(ctx, feed)
	defer func() { stop(); <-done }() // before the feed is closed
	for reached := uint64(0); ; {
		b := <-batches
		if b.err != nil || len(b.records) == 0 {
			return reached, b.err
		}
		for i := range b.records {
			if reached = b.records[i].Seq; reached > end {
				return end, nil
			}
			if err := each(&b.records[i]); err != nil || reached == end {
				return end, err
			}
		}
		b.free <- b.records
	}
}

// batch is one read of a feed.
type batch struct {
	records []events.Record
	err     error
	free    chan<- []events.Record // takes the records back, for their memory
}

// readAhead reads a feed in its own goroutine, so that the next records are decoded while others
// are processed. The last batch has an error, or is empty. done closes when the feed is no longer
// used.
func readAhead(ctx context.Context, feed events.Feed) (_ <-chan batch, done <-chan struct{}) {
	const ahead = 2
	batches, free, ended := make(chan batch), make(chan []events.Record, ahead), make(chan struct{})
	for range ahead {
		free <- nil
	}
	go func() {
		defer close(ended)
		for {
			var mine []events.Record
			select {
			case mine = <-free:
			case <-ctx.Done():
				return
			}
			records, err := NextRecords(ctx, feed, true)
			// The feed reuses its own.
			b := batch{records: append(mine[:0], records...), err: err, free: free}
			select {
			case batches <- b:
			case <-ctx.Done():
				return
			}
			if err != nil || len(records) == 0 {
				return
			}
		}
	}()
	return batches, ended
}

// quiet is how long a feed that should have more messages may be silent: the last messages of the
// log may be timers that are gone, so that its last sequence never comes.
const quiet = 2 * time.Second

// NextRecords waits for the next records of a feed; with bounded only for quiet, and then none
// means that there are no more.
func NextRecords(ctx context.Context, feed events.Feed, bounded bool) ([]events.Record, error) {
	if !bounded {
		return feed.Next(ctx)
	}
	waiting, cancel := context.WithTimeout(ctx, quiet)
	defer cancel()
	records, err := feed.Next(waiting)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil, nil
	}
	return records, err
}
