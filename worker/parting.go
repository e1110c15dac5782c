package worker

import (
	"context"
	"sync"
	"time"
)

// parting bounds how long output can be stored when the worker ends. It outlasts the stop of the
// attempts, for their last lines say how they ended; but a store that does not answer delays no
// worker.
type parting struct {
	context.Context
	over context.CancelFunc
	// begun ends when attempts are stopped because the worker ends.
	begun context.Context
	start context.CancelFunc
	// reports ends partingWords later, for attempts that had ended before.
	reports context.Context
	late    context.CancelFunc
}

// Bounds of what a worker does at its end. One after the other come, at worst: the stop of the attempts
// by their own grace, their output (leaveFlush), their reports, the last word, and the offers that are
// on their way. With the connection's end, that is less than the 15 s that docs/operations.md promises.
const (
	// partingWords is how long an ending worker offers each of its words to a log that does not take
	// it: that the node is going, the end of an attempt, and that the node is gone.
	partingWords = 3 * time.Second
	// hurry bounds each wait of a worker that must end at once.
	hurry = time.Second
)

func newParting(ctx context.Context) parting {
	var p parting
	p.Context, p.over = context.WithCancel(context.WithoutCancel(ctx))
	p.begun, p.start = context.WithCancel(context.WithoutCancel(ctx))
	p.reports, p.late = context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(p.begun, func() { time.AfterFunc(partingWords, p.late) })
	return p
}

// begin ends the parting after the longest grace of any attempt plus the time to store the last
// batch.
func (p parting) begin(stopped []*Attempt, why error) {
	var longest time.Duration
	for _, a := range stopped {
		longest = max(longest, a.Grace(why))
	}
	time.AfterFunc(longest+leaveFlush, p.over)
	p.start()
}

// reporting bounds how long the end of an attempt is offered to a log that does not take it: as
// long as the worker lasts, and a while longer. The caller must call enough. All reports before the
// parting share one context: one context each took a twentieth of the worker's time.
func (w *Worker) reporting() (ctx context.Context, enough context.CancelFunc) {
	switch {
	case w.parting.begun == nil:
		return w.lasting, func() {}
	case w.parting.begun.Err() == nil:
		return w.parting.reports, func() {}
	}
	return context.WithTimeout(w.lasting, partingWords)
}

// storing returns the context in which the output of an attempt is stored. An attempt with a spool
// writes there when the attempts must end, for the next process.
func (w *Worker) storing(attempts context.Context, spools bool) context.Context {
	if spools || w.parting.Context == nil {
		return attempts
	}
	return w.parting.Context
}

// hurried tells whether the worker must end at once.
func (w *Worker) hurried() bool {
	select {
	case <-w.cfg.Hurry:
		return true
	default:
		return false
	}
}

// drain waits for the running attempts, and stops them when the grace time is over. When told to
// hurry, it leaves behind what does not end within a second.
func (w *Worker) drain(ctx context.Context, slots *sync.WaitGroup, stop context.CancelCauseFunc) {
	said := make(chan struct{})
	go func() { defer close(said); w.sayDraining(ctx) }()
	ended := make(chan struct{})
	go func() { slots.Wait(); <-said; close(ended) }()
	grace := time.NewTimer(w.cfg.Grace)
	defer grace.Stop()
	why := ErrShutdown
	watching, enough := context.WithCancel(ctx)
	defer enough()
	select {
	case <-ended:
		return
	case <-w.onlyKept(watching):
	case <-grace.C:
	case <-w.cfg.Hurry:
		why = ErrHurry
	}
	if n := w.leases.ending(); n > 0 {
		w.log.Warn("grace is over: giving running tasks back", "tasks", n, "grace", w.cfg.Grace.String())
	}
	w.stopAll(why, stop)
	select {
	case <-ended:
		return
	case <-w.cfg.Hurry:
	}
	w.stopAll(ErrHurry, stop)
	select {
	case <-ended:
	case <-time.After(hurry):
		w.log.Warn("leaving behind what has not ended; it starts elsewhere when its lease has run out", "tasks", len(w.leases.all()))
	}
}

func (w *Worker) stopAll(why error, stop context.CancelCauseFunc) {
	w.leaveKept()
	stop(why) // first, so that an attempt that begins now stops itself
	all := w.leases.all()
	for _, a := range all {
		a.stop(why)
	}
	w.parting.begin(all, why)
}
