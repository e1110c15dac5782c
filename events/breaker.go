package events

import (
	"context"
	"fmt"
	"time"

	"millrace/task"
)

// Circuit reads how the breaker of a job stands. One of which there is no fact is closed.
func (r *Recorder) Circuit(ctx context.Context, job string) (task.Circuit, error) {
	last, found, err := r.Log.Breaker(ctx, job)
	if err != nil {
		return task.Circuit{}, fmt.Errorf("read the breaker of job %s: %w", job, err)
	}
	if !found {
		return task.Circuit{State: task.CircuitClosed}, nil
	}
	return last.Circuit(task.Circuit{}), nil
}

// DoBreaker records what happened to the breaker of a job if it still stands as it
// was, and returns how it stands then. At is the [Recorder.Moment] by which that was decided, and by is what it was
// decided by; nil for the word of a person. If it does not, the error wraps
// [ErrConflict]; one that wraps [ErrUnknown] leaves it open. Read it then, and judge again.
func (r *Recorder) DoBreaker(ctx context.Context, job string, was task.Circuit, at time.Time, e task.BreakerEvent, by *task.By) (task.Circuit, error) {
	f := &Fact{ID: r.NewID(at), At: at, Type: TypeOf(e), Job: job, Actor: r.Actor, By: by, Event: e}
	seq, err := r.Log.Append(ctx, f, was.Head)
	if err != nil {
		return was, fmt.Errorf("record %s: %w", f.Type, err)
	}
	return task.EvolveCircuit(was, seq, at, e), nil
}

// Circuit adds the record to what is known of the breaker that it is about.
func (r *Record) Circuit(c task.Circuit) task.Circuit {
	e, _ := r.Fact.Event.(task.BreakerEvent)
	return task.EvolveCircuit(c, r.Seq, r.Fact.At, e)
}
