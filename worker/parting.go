package worker

import (
	"context"
	"time"
)

// parting is the time in which what attempts say can be stored. It outlasts their stop when the worker
// ends, for what they say then is how they ended; but a store that does not answer holds nobody up.
type parting struct {
	context.Context
	over context.CancelFunc
	// begun ends when attempts are stopped because the worker ends.
	begun context.Context
	start context.CancelFunc
	// reports ends partingReport later, for the ends of attempts that had come before.
	reports context.Context
	late    context.CancelFunc
}

// How long what is said at the end may take to be stored.
const (
	// partingReport is how long the end of an attempt is offered to a log that does not take it, when
	// the worker ends.
	partingReport = 5 * time.Second
	// partingWords is how long the node itself tries to say that it is going, and then that it is gone.
	partingWords = 3 * time.Second
)

func newParting(ctx context.Context) parting {
	var p parting
	p.Context, p.over = context.WithCancel(context.WithoutCancel(ctx))
	p.begun, p.start = context.WithCancel(context.WithoutCancel(ctx))
	p.reports, p.late = context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(p.begun, func() { time.AfterFunc(partingReport, p.late) })
	return p
}

// begin ends it after the longest grace that attempts have, and what it takes to store the last batch.
func (p parting) begin(stopped []*Attempt, why error) {
	var longest time.Duration
	for _, a := range stopped {
		longest = max(longest, a.Grace(why))
	}
	time.AfterFunc(longest+leaveFlush, p.over)
	p.start()
}

// reporting is how long the end of an attempt is offered to a log that does not take it: for as long as
// the worker lasts, and a while longer. Enough must be called. The ends before the parting share one context: one for
// each took a twentieth of the worker's time.
func (w *Worker) reporting() (ctx context.Context, enough context.CancelFunc) {
	switch {
	case w.parting.begun == nil:
		return w.lasting, func() {}
	case w.parting.begun.Err() == nil:
		return w.parting.reports, func() {}
	}
	return context.WithTimeout(w.lasting, partingReport)
}

// storing is how long the output of an attempt waits to be stored. What has a spool goes there when the
// attempts are to end, for the next process.
func (w *Worker) storing(attempts context.Context, spools bool) context.Context {
	if spools || w.parting.Context == nil {
		return attempts
	}
	return w.parting.Context
}
