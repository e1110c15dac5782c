package claim

import (
	"context"
	"fmt"
	"time"

	"millrace/task"
	"millrace/task/duties"
	"millrace/task/schedule"
	"millrace/task/value"
)

// window postpones a task whose window is closed. A task that may start must do so before the
// window closes.
func (p *Protocol) window(ctx context.Context, q *question) (a answer, err error) {
	if !q.waits() {
		return a, nil
	}
	return q.asked(task.By{Rule: value.Window, At: p.Recorder.Moment()}, duties.Read{Calendar: p.calendars(ctx)})
}

// calendars returns how to read calendars.
func (p *Protocol) calendars(ctx context.Context) func(name string) (task.Definition, error) {
	return func(name string) (task.Definition, error) {
		is, err := p.definitions.Get(ctx, p.Recorder, task.Named(task.DefCalendar, name))
		if err != nil {
			err = fmt.Errorf("ask the calendar %s: %w", name, err)
		}
		return is, err
	}
}

// shutRest bounds how long an offer rests while the valve of its queue is shut. By then its
// worker no longer asks for offers of the queue, so the offer is not delivered again before the
// valve opens.
const shutRest = 10 * time.Second

// flow lets an offer rest that was on its way when the valve of its queue shut. A task that may
// start must do so before the valve shuts.
func (p *Protocol) flow(ctx context.Context, q *question) (a answer, err error) {
	at := p.Recorder.Moment()
	shut, closes, err := schedule.Flow(q.valve, at, p.calendars(ctx))
	if err != nil {
		return a, err
	}
	if q.claim.Closes = closes; shut != nil {
		a.rest = min(shut.Until.Sub(at), shutRest)
	}
	return a, nil
}
