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
}

func newParting(ctx context.Context) parting {
	var p parting
	p.Context, p.over = context.WithCancel(context.WithoutCancel(ctx))
	return p
}

// begin ends it after the longest grace that attempts have, and what it takes to store the last batch.
func (p parting) begin(stopped []*Attempt, why error) {
	var longest time.Duration
	for _, a := range stopped {
		longest = max(longest, a.Grace(why))
	}
	time.AfterFunc(longest+leaveFlush, p.over)
}

// storing is how long the output of an attempt waits to be stored. What has a spool goes there when the
// attempts are to end, for the next process.
func (w *Worker) storing(attempts context.Context, spools bool) context.Context {
	if spools || w.parting.Context == nil {
		return attempts
	}
	return w.parting.Context
}
