package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"millrace/client"
	"millrace/events"
)

func (a *app) eventsExport() *cobra.Command {
	var from, to uint64
	c := &cobra.Command{
		Use: "export", Aliases: []string{"dump"},
		Short: "Write the log, or a range of it, as lines of JSON",
		Long: `Writes every message of the log up to its present end to stdout, as a line of JSON:
seq, stored (when the log took it), kind (offer, hold, chain, node, other), subject,
and body, the message as it was written. What is no JSON object stands in bytes, in
base64, and what is no fact has error. "millrace verify --file" reads it.`,
		Example: `  millrace events export > log.jsonl
  millrace events export --from 1000 --to 2000 | zstd > part.jsonl.zst`,
		Args: takes(0, 0, ""),
	}
	c.Flags().Uint64Var(&from, "from", 1, "begin at this `sequence`")
	c.Flags().Uint64Var(&to, "to", 0, "end at this `sequence` (default: the end of the log now)")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if to > 0 && to < from {
			return misuse(c, "--to %d is before --from %d", to, from)
		}
		cl, err := a.connect(c.Context())
		if err != nil {
			return err
		}
		defer cl.Close()
		w, err := events.NewExportWriter(a.out, from, to)
		if err != nil {
			return err
		}
		return errors.Join(a.span(c.Context(), cl, from, to, w.Write), w.Flush())
	}
	return c
}

// span reads the log from a sequence (0 or 1 for the beginning) to another one,
// or to its end as it is now, and hands the records on. It never stops early:
// as long as the log has more of the range, it waits for that.
func (a *app) span(ctx context.Context, c *client.Client, from, to uint64, each func(*events.Record) error) error {
	last := func() (uint64, error) {
		asking, cancel := a.asking(ctx)
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
		// The last messages were perhaps timers that are gone by now; or the
		// server is slow, and then there are some that were not seen.
		now, err := last()
		if err != nil {
			return err
		}
		next, end = max(next, reached+1), min(end, now)
	}
	return nil
}

// spanQuiet hands on the records of a range until it has seen the last one or
// nothing comes for a while, and returns how far it came: end if it saw that the
// range is over.
func (a *app) spanQuiet(ctx context.Context, c *client.Client, from, end uint64, each func(*events.Record) error) (uint64, error) {
	feed, err := c.Store().Follow(ctx, from)
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

// batch is what a feed had at once.
type batch struct {
	records []events.Record
	err     error
	free    chan<- []events.Record // takes the records back, for their memory
}

// readAhead reads a feed in a goroutine of its own, so that the next records are read and decoded while
// others are dealt with. The last batch has an error, or nothing. Done is closed when nobody uses the feed any more.
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
			records, err := nextRecords(ctx, feed, true)
			b := batch{records: append(mine[:0], records...), err: err, free: free} // the feed reuses its own
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
