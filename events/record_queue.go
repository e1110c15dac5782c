package events

import (
	"context"
	"errors"
	"fmt"

	"millrace/task"
)

// LoadQueue reads what operators have said about a queue; nothing is no error.
func (r *Recorder) LoadQueue(ctx context.Context, name string) (task.Queue, error) {
	q, _, err := r.readQueue(ctx, name, "")
	if err != nil {
		return q, fmt.Errorf("read queue %s: %w", name, err)
	}
	return q, nil
}

// DoQueue is [Recorder.Do] for a queue, which it reads from the log first.
func (r *Recorder) DoQueue(ctx context.Context, name string, c task.QueueCommand) (task.Queue, task.QueueEvent, error) {
	q, err := r.LoadQueue(ctx, name)
	if err != nil {
		return q, nil, err
	}
	for {
		event, err := task.DecideQueue(q, c, r.Now())
		if err != nil || event == nil {
			return q, nil, err
		}
		at := r.Moment()
		f := &Fact{ID: r.NewID(at), At: at, Type: TypeOf(event), Queue: name, Actor: r.Actor, Event: event}
		var now task.Queue
		seq, err := r.record(ctx, f, q.Head, func() (head uint64, found bool, err error) {
			now, found, err = r.readQueue(ctx, name, f.ID)
			return now.Head, found, err
		})
		switch {
		case errors.Is(err, errMoved):
			q = now
		case err != nil:
			return q, nil, fmt.Errorf("record %s: %w", f.Type, err)
		case seq == 0:
			return now, event, nil
		default:
			return task.EvolveQueue(q, seq, f.At, f.Actor, event), event, nil
		}
	}
}

// readQueue reads a queue. The second result tells whether a fact with this id is
// among what was said of it.
func (r *Recorder) readQueue(ctx context.Context, name, fact string) (task.Queue, bool, error) {
	records, err := r.Log.Queue(ctx, name)
	return FoldQueue(name, records), holds(records, fact), err
}
