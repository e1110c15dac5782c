package client

import (
	"context"
	"errors"
	"time"

	"millrace/events/jet/outputs"
	"millrace/task"
	"millrace/task/output"
)

// OutputStart is where reading a task's output begins: at a message, or at the first one stored
// since a time. The zero value is the beginning.
type OutputStart = outputs.Start

// Printout says where the lines of a task lie; NumberedLine is one of them.
type (
	Printout     = outputs.Printout
	NumberedLine = outputs.Numbered
)

// Output calls each with the lines that a task has printed, in order; with follow also with later
// ones, until the task has ended. Every line is delivered before Output returns without an error.
func (c *Client) Output(ctx context.Context, id task.ID, follow bool, each func(output.Lines) error) error {
	return c.OutputFrom(ctx, id, OutputStart{}, follow, each)
}

// OutputFrom is [Client.Output] from a start on; it does not read what lies before.
func (c *Client) OutputFrom(ctx context.Context, id task.ID, from OutputStart, follow bool, each func(output.Lines) error) error {
	if !follow {
		return c.on.Outputs.PrintedFrom(ctx, id, from, false, func(_ uint64, b output.Lines) error { return each(b) })
	}
	printing, stop := context.WithCancel(ctx)
	defer stop()
	seen := map[uint64]int{} // the last line seen of each epoch
	once := func(seq uint64, b output.Lines) error {
		from = OutputStart{Seq: seq}
		if b.Lines = unseen(seen, b); len(b.Lines) == 0 {
			return nil
		}
		return each(b)
	}
	live := make(chan error, 1)
	begin := from
	go func() { live <- c.on.Outputs.PrintedFrom(printing, id, begin, true, once) }()
	_, err := c.Wait(ctx, id)
	stop()
	if printed := <-live; printed != nil && !errors.Is(printed, context.Canceled) {
		return printed
	}
	if err != nil {
		return err
	}
	// All lines were stored before the end was; the rest is there now.
	return c.on.Outputs.PrintedFrom(ctx, id, from, false, once)
}

// OutputTail finds where to begin in order to read the last n wanted lines of a task's output. It
// reads backwards from the end, and no further than necessary: at most back to since.
func (c *Client) OutputTail(ctx context.Context, id task.ID, n int, since time.Time, wanted func(attempt int, l *output.Line) bool) (OutputStart, error) {
	var from OutputStart
	if c.role != "" {
		return from, nil // the service does not read backwards
	}
	first := map[uint64]int{} // the earliest line counted of each epoch: a batch may be there twice
	err := c.store.PrintedBack(ctx, id, func(seq uint64, b output.Lines) bool {
		from.Seq = seq
		for i := len(b.Lines) - 1; i >= 0; i-- {
			l := &b.Lines[i]
			if f, ok := first[b.Epoch]; ok && l.N >= f {
				continue
			}
			first[b.Epoch] = l.N
			if wanted(b.Attempt, l) {
				n--
			}
		}
		return n > 0 && (len(b.Lines) == 0 || !b.Lines[len(b.Lines)-1].At.Before(since))
	})
	return from, err
}

// OutputRanges returns where the output of each attempt of a task lies in its stream, by the
// attempt's epoch. It reads a few messages of each attempt.
func (c *Client) OutputRanges(ctx context.Context, id task.ID) (map[uint64]outputs.Range, error) {
	if c.role != "" {
		return c.rangesAsked(ctx, id)
	}
	return c.store.OutputRanges(ctx, id)
}

// Live returns the progress that a task's program last reported; its epoch is 0 if it never did.
func (c *Client) Live(ctx context.Context, id task.ID) (output.Live, error) {
	if c.role != "" {
		return output.Live{}, nil // the lists of the service have it
	}
	return c.store.Live(ctx, id)
}

// WatchLive calls said with each progress report of a task, until stop is called. Reports can be
// lost; the latest one counts.
func (c *Client) WatchLive(id task.ID, said func(output.Live)) (stop func(), err error) {
	if c.role != "" {
		return func() {}, nil
	}
	return c.store.WatchLive(id, said)
}

// Checkpoint returns where the next attempt of a task continues; its epoch is 0 if there is no
// checkpoint.
func (c *Client) Checkpoint(ctx context.Context, id task.ID) (output.Checkpoint, error) {
	if c.role != "" {
		return output.Checkpoint{}, nil
	}
	return c.store.Checkpoint(ctx, id)
}
