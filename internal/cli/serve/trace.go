package serve

import (
	"context"
	"fmt"
	"time"

	"millrace/events/jet"
	"millrace/internal/cli/wording"
	"millrace/internal/observe"
	"millrace/projections"
	"millrace/scheduler"
	"millrace/service/client"
	"millrace/worker"
)

// lastSpans bounds sending the remaining spans when the process ends.
const lastSpans = 3 * time.Second

// trace begins to send spans, if the environment asks for them. An error there stops nothing.
func (p *parts) trace() {
	t, err := observe.Start(p.ctx, observe.Config{Version: wording.ThisBuild().Version, Log: p.log})
	if err != nil {
		p.log.Warn("no spans are sent", "error", err)
	}
	if t == nil {
		return
	}
	p.tracer = t
	p.closers = append(p.closers, func() {
		ctx, cancel := context.WithTimeout(context.Background(), lastSpans)
		defer cancel()
		if err := t.Close(ctx); err != nil {
			p.log.Warn("the last spans could not be sent", "error", err)
		}
	})
}

// attempts returns the tracer of attempts; nil if no spans are sent.
func (p *parts) attempts() worker.Tracer {
	if p.tracer == nil {
		return nil
	}
	return p.tracer
}

// traceTasks sends the spans of tasks that end from now on.
func (p *parts) traceTasks(projector *projections.Projector, decider *scheduler.Scheduler, store *jet.Store) error {
	if p.tracer == nil {
		return nil
	}
	last, err := store.Last(p.ctx)
	if err != nil {
		return fmt.Errorf("spans begin where the log ends now: %w", err)
	}
	f := observe.NewFollower(observe.Following{Tracer: p.tracer, After: last, History: client.New(store, "").History, First: decider.First, Now: p.clock.Now, Log: p.log})
	projector.Observers = append(projector.Observers, f)
	p.start(f.Run)
	return nil
}
