package millrace

import (
	"context"
	"encoding/json"
	"fmt"

	"millrace/service/client"
	"millrace/task"
	"millrace/task/output"
)

// Task is what the log knows of a task.
type Task = task.Task

// ID names a task.
type ID = task.ID

// Line is a line of a task's log.
type Line = output.Line

// Receipt is the answer to a submission.
type Receipt = client.Receipt

// Run is a task of a function that returns Out. [Function.Submit] makes one, and [Function.Run]
// finds one.
type Run[Out any] struct {
	// ID names the task.
	ID ID
	// Existing tells that the submission has made nothing new: the task was there, with the same
	// unique key or id.
	Existing bool

	app *App
}

// Result waits for the end of the task and returns what its function returned. The error is a
// [*Failure] if it ended otherwise, says which field of a result does not fit Out, or else wraps
// [ErrUnknown], or ctx's error if that ended first.
func (r *Run[Out]) Result(ctx context.Context) (out Out, err error) {
	t, err := r.app.client.Wait(ctx, r.ID)
	switch {
	case err != nil:
		return out, fmt.Errorf("millrace: wait for task %s: %w", r.ID, err)
	case t.State != task.Finished:
		return out, &Failure{Task: t}
	case len(t.Result) == 0:
		return out, nil
	}
	if err := decodeResult(t.Result, &out); err != nil {
		return out, fmt.Errorf("millrace: result of task %s: %w", r.ID, err)
	}
	return out, nil
}

// Task returns the task as it is now. The error wraps [ErrUnknown].
func (r *Run[Out]) Task(ctx context.Context) (Task, error) {
	t, err := r.app.client.Task(ctx, r.ID)
	if err != nil {
		return t, fmt.Errorf("millrace: %w", err)
	}
	return t, nil
}

// Log calls each with what the attempts of the task have logged so far, in order.
func (r *Run[Out]) Log(ctx context.Context, each func(Line) error) error {
	return r.app.client.Output(ctx, r.ID, false, func(l output.Lines) error {
		l.OneByOne()
		for _, line := range l.Lines {
			if err := each(line); err != nil {
				return err
			}
		}
		return nil
	})
}

// Records calls each with the records that the attempts of the task have produced so far, in order.
func (r *Run[Out]) Records(ctx context.Context, each func(json.RawMessage) error) error {
	return r.app.client.Records(ctx, r.ID, func(some output.Records) error {
		for _, record := range some.Items {
			if err := each(record); err != nil {
				return err
			}
		}
		return nil
	})
}

// Cancel asks for the end of the task, with a reason for people: a waiting one is cancelled when
// Cancel returns, and the context of a running one ends soon. The error wraps [ErrUnknown] or
// [ErrEnded].
func (r *Run[Out]) Cancel(ctx context.Context, reason string) error {
	_, err := r.app.client.Cancel(ctx, r.ID, reason)
	return err
}

// Retry has an ended task run again, as the same task. The error wraps [ErrUnknown].
func (r *Run[Out]) Retry(ctx context.Context, reason string) error {
	_, err := r.app.client.Retry(ctx, r.ID, reason)
	return err
}

// Signal gives a task that waits for a signal ([Await], or `signal` in [Fields]) what it waits for;
// data may be nil. Given twice, it also answers the next Await: [Run.SignalTo] does not. The error wraps
// [ErrNotHeld] if the task does not wait for one now, [ErrUnknown], [ErrEnded] or [ErrInvalid].
func (r *Run[Out]) Signal(ctx context.Context, data any) error { return r.SignalTo(ctx, "", data) }

// SignalTo is [Run.Signal] for the signal of a name, or of the step of this name that waits: if the task waits for
// another one, the error wraps [ErrNotHeld]. So it is safe to give it again.
func (r *Run[Out]) SignalTo(ctx context.Context, name string, data any) error {
	raw, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("millrace: signal task %s: %w", r.ID, client.Wrong(err))
	}
	if data == nil {
		raw = nil
	}
	_, err = r.app.client.Approve(ctx, r.ID, client.Approval{Name: name, Data: raw})
	return err
}
