package outputs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/output"
)

// Left is one kind of what tasks leave, to a scheduler that keeps it only for a time.
type Left struct {
	Model
	rec    *events.Recorder
	tasks  func(context.Context) ([]task.ID, error)
	drop   func(ctx context.Context, t *task.Task, reason string, now time.Time) (bool, error)
	forget func(ctx context.Context, before time.Time) error
}

// Model is a read model that knows tasks.
type Model interface {
	Known(ctx context.Context, ids []task.ID) ([]task.Task, error)
	// RunsSince is a time before which no task ran that the log still has; zero if it has forgotten none.
	RunsSince(ctx context.Context) (time.Time, error)
}

// LeftLines is what tasks have printed.
func (o *Outputs) LeftLines(m Model, rec *events.Recorder) Left {
	drop := func(ctx context.Context, t *task.Task, reason string, now time.Time) (bool, error) {
		return o.DropOutput(ctx, t.ID, func(n int) output.Lines {
			many := "1 line"
			if n != 1 {
				many = fmt.Sprintf("%d lines", n)
			}
			said := output.Line{N: 1, At: now, Stream: output.System, Text: many + " dropped: " + reason}
			return output.Lines{Task: t.ID, Attempt: t.Attempt, Epoch: t.Epoch, Dropped: n, Lines: []output.Line{said}}
		})
	}
	return Left{m, rec, o.OutputTasks, drop, o.ForgetOutput}
}

// LeftRecords is what tasks have produced: their records, and results of steps, which only go with their task.
func (o *Outputs) LeftRecords(m Model, rec *events.Recorder) Left {
	drop := func(ctx context.Context, t *task.Task, reason string, _ time.Time) (bool, error) {
		return o.DropRecords(ctx, t.ID, func(n int) output.Records {
			return output.Records{Task: t.ID, Attempt: t.Attempt, Epoch: t.Epoch, Items: []json.RawMessage{}, Dropped: n, Reason: reason}
		})
	}
	forget := func(ctx context.Context, before time.Time) error {
		return errors.Join(o.ForgetRecords(ctx, before), (&Files{o.Link}).ForgetSteps(ctx, before))
	}
	return Left{m, rec, o.RecordTasks, drop, forget}
}

// Tasks lists the tasks that have left something.
func (l Left) Tasks(ctx context.Context) ([]task.ID, error) { return l.tasks(ctx) }

// Load reads a task from the log.
func (l Left) Load(ctx context.Context, id task.ID) (task.Task, error) { return l.rec.Load(ctx, id) }

// Drop replaces what a task has left by one message, which says how much it was and why it went. It
// returns false if that was done before.
func (l Left) Drop(ctx context.Context, t *task.Task, reason string, now time.Time) (bool, error) {
	return l.drop(ctx, t, reason, now)
}

// Forget drops what tasks have left that the log has forgotten.
func (l Left) Forget(ctx context.Context) error {
	before, err := l.RunsSince(ctx)
	if err != nil || before.IsZero() {
		return err
	}
	return l.forget(ctx, before)
}
