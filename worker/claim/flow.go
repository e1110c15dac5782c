package claim

import (
	"context"
	"fmt"
	"time"

	"millrace/task/definition"
	"millrace/task/queue"
	"millrace/task/schedule"
)

// shutRest bounds how long an offer rests while the window of its queue is closed. By then its
// worker no longer asks for offers of the queue, so the offer is not delivered again before the
// window opens.
const shutRest = 10 * time.Second

// flow lets an offer rest that was on its way when the window of its queue closed. A task that may
// start must do so before the window closes.
func (p *Protocol) flow(ctx context.Context, q *question) (a answer, err error) {
	is, err := p.definitions.Get(ctx, p.Recorder, definition.Named(definition.DefCalendar, q.window))
	if err != nil {
		return a, fmt.Errorf("ask the calendar %s: %w", q.window, err)
	}
	at := p.Recorder.Moment()
	shut, closes := schedule.Flow(&queue.Queue{Window: q.window}, &is, at)
	if q.claim.Closes = closes; shut != nil {
		a.rest = min(shut.Until.Sub(at), shutRest)
	}
	return a, nil
}
