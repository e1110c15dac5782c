package claim

import (
	"context"
	"fmt"
	"time"

	"millrace/task"
	"millrace/task/definition"
	"millrace/task/schedule"
	"millrace/task/value"
)

// window postpones a task whose window is closed. A task that may start must do so before the
// window closes.
func (p *Protocol) window(ctx context.Context, q *question) (a answer, err error) {
	t := q.task
	if !q.waits() {
		return a, nil
	}
	is, err := p.definitions.Get(ctx, p.Recorder, definition.Named(definition.DefCalendar, t.Spec.Window))
	if err != nil {
		return a, fmt.Errorf("ask the calendar %s: %w", t.Spec.Window, err)
	}
	at := p.Recorder.Moment()
	wait, closes := schedule.Window(t.Spec.Window, &is, at)
	// The queue's window may close first.
	if q.claim.Closes.IsZero() || !closes.IsZero() && closes.Before(q.claim.Closes) {
		q.claim.Closes = closes
	}
	if wait != nil {
		a.command = task.Judged{Command: wait.Postpone(t.Turn), By: task.By{Rule: value.Window, At: at, Calendar: is.Revision}}
	}
	return a, nil
}

// shutRest bounds how long an offer rests while the valve of its queue is shut. By then its
// worker no longer asks for offers of the queue, so the offer is not delivered again before the
// valve opens.
const shutRest = 10 * time.Second

// flow lets an offer rest that was on its way when the valve of its queue shut. A task that may
// start must do so before the valve shuts.
func (p *Protocol) flow(ctx context.Context, q *question) (a answer, err error) {
	at := p.Recorder.Moment()
	shut, closes, err := schedule.Flow(q.valve, at, func(calendar string) (definition.Definition, error) {
		return p.definitions.Get(ctx, p.Recorder, definition.Named(definition.DefCalendar, calendar))
	})
	if err != nil {
		return a, err
	}
	if q.claim.Closes = closes; shut != nil {
		a.rest = min(shut.Until.Sub(at), shutRest)
	}
	return a, nil
}
