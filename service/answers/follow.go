package answers

import (
	"context"
	"errors"

	"millrace/events"
	"millrace/events/jet/rights"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/output"
	"millrace/task/value"
)

// A follower holds no place at the desk: what it gets is made by requests that hold one, or read
// once for all followers.

// Reached returns how far into the log answers reach.
func (d *Desk) Reached() uint64 { return d.service.Model.Reached() }

// News returns when answers reach further than a sequence, or with ctx's error.
func (d *Desk) News(ctx context.Context, seq uint64) error { return d.service.Model.News(ctx, seq) }

// Last returns the sequence of the log's last message.
func (d *Desk) Last(ctx context.Context) (uint64, error) { return d.service.Client.Last(ctx) }

// Page reads records of the log from a sequence on, as [jet.Store.Page] does.
func (d *Desk) Page(ctx context.Context, from uint64, most int) ([]events.Record, error) {
	return d.service.Client.Store().Page(ctx, from, most)
}

// Follow calls each with the lines ([rights.TaskOutput]) or records ([rights.TaskRecords]) of a task,
// batch by batch, each with its sequence, until the task has ended and everything is read. The body
// is a request of that verb; batches up to its After are left out. begun is called first, once it
// is known that the task exists.
func (d *Desk) Follow(ctx context.Context, verb rights.Verb, body []byte, begun func() error, each func(seq uint64, of any) error) error {
	r, err := read[saidRequest](body)
	if err != nil {
		return err
	}
	if err := r.check(); err != nil {
		return badRequest{err}
	}
	store := d.service.Client.Store()
	if _, err := d.service.Client.Task(ctx, r.ID); err != nil {
		return err
	}
	if err := begun(); err != nil {
		return err
	}
	return d.follow(ctx, r, each, func(ctx context.Context, from client.OutputStart, follow bool, each func(uint64, any) error) error {
		if verb == rights.TaskRecords {
			return store.KeptOf(ctx, []task.ID{r.ID}, from, follow, func(seq uint64, of output.Records) error { return each(seq, of) })
		}
		return store.PrintedFrom(ctx, r.ID, from, follow, func(seq uint64, of output.Lines) error { return each(seq, of) })
	})
}

func (d *Desk) follow(ctx context.Context, r saidRequest, each func(uint64, any) error,
	read func(ctx context.Context, from client.OutputStart, follow bool, each func(uint64, any) error) error) error {
	reached := r.After
	once := func(seq uint64, of any) error {
		if seq <= reached {
			return nil
		}
		reached = seq
		return each(seq, of)
	}
	from := client.OutputStart{}
	if r.After > 0 {
		from.Seq = r.After + 1
	}
	reading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	live := make(chan error, 1)
	go func() {
		err := read(reading, from, true, once)
		stop(err) // the follower is gone: there is nothing to wait for
		live <- err
	}()
	_, err := d.service.Client.Wait(reading, r.ID)
	stop(nil)
	if said := <-live; said != nil && !errors.Is(said, context.Canceled) {
		return said
	}
	if err != nil {
		return err
	}
	if reached > 0 { // everything was stored before the end was; the rest is there now
		from.Seq = reached + 1
	}
	return read(ctx, from, false, once)
}

// Chosen decodes a request of [rights.EventList]: where it begins, and which facts it chooses.
func Chosen(body []byte) (from uint64, filter view.FactFilter, err error) {
	r, err := read[rangeRequest](body)
	if err == nil {
		if err = r.check(); err != nil {
			err = badRequest{err}
		}
	}
	return r.From, r.FactFilter, err
}

// Chooser returns a function that tells whether a filter chooses a record. Use it in one goroutine.
func (d *Desk) Chooser(f *view.FactFilter) func(context.Context, *events.Record) (bool, error) {
	q := queuesOf{client: d.service.Client}
	return func(ctx context.Context, r *events.Record) (bool, error) { return q.wanted(ctx, f, r) }
}

// ShowFact encodes a record of the log in the form of answers.
func ShowFact(r *events.Record) ([]byte, error) { return value.JSON(client.ShowFact(r)) }

// TakeFollower counts a caller as a follower, if its share allows, until leave is called.
func (d *Desk) TakeFollower(caller string) (leave func(), ok bool) {
	return func() { d.following.leave(caller, 1) }, d.following.take(caller, 1)
}
