package claim

import (
	"context"
	"time"

	"millrace/task/definition"
	"millrace/task/schedule"
)

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
