package client

import (
	"context"
	"errors"
	"time"

	"millrace/events"
	"millrace/events/jet/outputs"
	"millrace/task"
	"millrace/task/output"
)

// lookAgain is how often a waiting client reads the log without being told of a change.
const lookAgain = 2 * time.Second

// Wait returns a task when it has ended, and no retry of its parent has yet to reopen it. The error
// wraps [task.ErrUnknown] if there is none, [events.ErrGone] if the connection is closed for good, and
// ctx's if that ended first; then the task is as last seen.
func (c *Client) Wait(ctx context.Context, id task.ID) (task.Task, error) {
	return c.Watch(ctx, id, nil)
}

// Watch is [Client.Wait], and calls changed with the task at first and after every change that it
// sees.
func (c *Client) Watch(ctx context.Context, id task.ID, changed func(task.Task)) (task.Task, error) {
	if c.role != "" {
		return c.watchAsked(ctx, id, changed)
	}
	poke := make(chan struct{}, 1)
	stop, err := c.on.News.WatchTask(id, func() {
		select {
		case poke <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return task.Task{}, err
	}
	defer stop()
	ticker := time.NewTicker(lookAgain)
	defer ticker.Stop()
	var t task.Task
	var known events.KnownTask
	for {
		now, err := c.rec.UpdateTask(ctx, id, &known)
		switch {
		case errors.Is(err, task.ErrUnknown):
			return now, err
		case ctx.Err() != nil:
			return t, ctx.Err()
		case err == nil: // else the server is away: it comes back, or ctx ends
			if changed != nil && now.Seq != t.Seq {
				changed(now)
			}
			t = now
			if ended, err := c.ended(ctx, &t); err == nil && ended { // likewise
				return t, nil
			}
		}
		select {
		case <-ctx.Done():
			return t, ctx.Err()
		case <-c.on.News.Gone():
			return t, c.on.News.WhyGone()
		case <-poke:
		case <-ticker.C:
		}
	}
}

// Records calls each with the records that a task has produced, in order, those of fenced attempts
// included: each batch has its epoch.
func (c *Client) Records(ctx context.Context, id task.ID, each func(output.Records) error) error {
	return c.on.Outputs.Kept(ctx, id, false, each)
}

// RecordSums counts the records of each attempt of a task, without reading all of them. It also
// returns the batch that replaces dropped records; its Dropped is 0 if there is none.
func (c *Client) RecordSums(ctx context.Context, id task.ID) ([]outputs.Sum, output.Records, error) {
	if c.role != "" {
		return c.sumsAsked(ctx, id)
	}
	return c.store.RecordSums(ctx, id)
}

// RecordsBack calls more with the records of a task, the latest batch first, until more returns
// false. A batch may come twice.
func (c *Client) RecordsBack(ctx context.Context, id task.ID, more func(output.Records) bool) error {
	if c.role != "" {
		var all []output.Records
		err := c.keptOf(ctx, []task.ID{id}, OutputStart{}, false, func(_ uint64, b output.Records) error {
			all = append(all, b)
			return nil
		})
		for i := len(all) - 1; i >= 0 && err == nil && more(all[i]); i-- {
		}
		return err
	}
	return c.store.KeptBack(ctx, id, more)
}
