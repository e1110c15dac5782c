package events

import (
	"context"
	"errors"
	"fmt"

	"millrace/task"
)

// ErrForgotten refuses a birth under an id that is older than what the log keeps: a task of this id
// may have been, and be forgotten.
var ErrForgotten = errors.New("older than what the log keeps")

// ErrNeedForgotten refuses a birth that needs a task which the log has forgotten. It is an [ErrForgotten].
var ErrNeedForgotten = fmt.Errorf("a task that it needs is %w", ErrForgotten)

// Horizon reads how far the log's horizon is.
func (r *Recorder) Horizon(ctx context.Context) (task.Horizon, error) {
	last, end, err := r.Log.Latest(ctx, Fact{Event: task.HorizonChosen{}})
	if err != nil {
		return task.Horizon{}, fmt.Errorf("read the horizon of the log: %w", err)
	}
	var h task.Horizon
	if e, ok := last.Fact.Event.(task.HorizonEvent); ok {
		h = task.EvolveHorizon(h, last.Seq, last.Fact.At, e)
	}
	h.Head = max(h.Head, end)
	return h, nil
}

// remembered refuses a birth under a chosen id that the log may have forgotten. What it has not
// forgotten must have been looked for before: the horizon moves before anything goes.
func (r *Recorder) remembered(ctx context.Context, id task.ID) error {
	h, err := r.Horizon(ctx)
	if err == nil && h.Older(id.Time()) {
		err = fmt.Errorf("%w: the id is of %s, the log begins at %s", ErrForgotten, id.Time().UTC().Format("2006-01-02T15:04:05Z"), h.Before.UTC().Format("2006-01-02T15:04:05Z"))
	}
	return err
}
