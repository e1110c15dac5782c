package events

import (
	"context"
	"fmt"

	"millrace/task/queue"
)

// LoadQueue reads the settings of a queue. A queue without facts is not an error.
func (r *Recorder) LoadQueue(ctx context.Context, name string) (queue.Queue, error) {
	q, _, err := r.readQueue(ctx, name, nil)
	return q, err
}

// DoQueue is [Recorder.Do] for a queue, which it reads from the log first.
func (r *Recorder) DoQueue(ctx context.Context, name string, c queue.Command) (queue.Queue, queue.Event, error) {
	chain := Chain[queue.Queue, *Fact]{
		Read: func(ctx context.Context, wrote *Fact) (queue.Queue, uint64, bool, error) {
			q, mine, err := r.readQueue(ctx, name, wrote)
			return q, q.Head, mine, err
		},
		Write: r.Log.Append,
	}
	var event queue.Event
	d, err := chain.Decide(ctx, func(q queue.Queue) (*Fact, bool, error) {
		at := r.Moment()
		var err error
		if event, err = queue.Decide(q, c, at); err != nil || event == nil {
			return nil, false, err
		}
		return &Fact{ID: r.NewID(at), At: at, Type: TypeOf(event), Queue: name, Actor: r.Actor, Event: event}, true, nil
	})
	switch {
	case err != nil:
		return d.Is, nil, recording(d.Wrote, err)
	case d.Outcome == Recorded:
		d.Is = queue.Evolve(d.Is, d.End, d.Wrote.At, d.Wrote.Actor, event)
	}
	return d.Is, event, nil
}

// readQueue reads a queue. The second result tells whether a fact is among its records.
func (r *Recorder) readQueue(ctx context.Context, name string, wrote *Fact) (queue.Queue, bool, error) {
	records, err := r.Log.Queue(ctx, name)
	if err != nil {
		err = fmt.Errorf("read queue %s: %w", name, err)
	}
	return FoldQueue(name, records), holds(records, wrote), err
}
