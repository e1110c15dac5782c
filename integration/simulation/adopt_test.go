package simulation

import (
	"context"
	"errors"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/worker"
)

// leftover is an attempt that outlives its worker: what a shim and the folder beside it hold.
type leftover struct {
	task  task.Task
	offer *events.Offer
	run   *run
}

// errLeft ends the work of a process on an attempt, but not the attempt.
var errLeft = errors.New("left to the next process")

// takeUp continues with the attempt that the process before has left. An attempt that no worker
// fetched in time, or that belongs to another worker by now, was stopped, and takeUp reports that.
func (w *workerProcess) takeUp(ctx context.Context) {
	l := w.has
	offer := *l.offer
	was := offer.Lease.(*lease)
	offer.Lease = &lease{Lease: was.Lease, port: w.port, offer: &offer, losses: was.losses}
	l.offer = &offer
	var stop error = worker.ErrLeaseLost
	t, err := w.rec.Load(ctx, l.task.ID)
	if err == nil && time.Now().Before(l.run.stops()) {
		_ = offer.Extend(ctx)
		asked := time.Now()
		switch t, _, err = w.rec.Do(ctx, t, task.Adopt{Epoch: l.task.Epoch, Node: string(w.node), Session: w.session, PID: 1}); {
		case errors.Is(err, task.ErrFenced), errors.Is(err, task.ErrEnded):
			stop = worker.ErrFenced
		case err == nil:
			l.run.confirm(asked)
			if asked.Before(l.run.stops()) {
				l.run.beaten = asked // the session that fell silent is not this one
			}
			w.h.endRun(l.run)
			w.places.Occupy(&t)
			l.task, l.run.task, l.run.actor = t, t, w.actor
			stop = w.work(ctx, l.run, &offer)
		}
	}
	w.conclude(ctx, l.run, &offer, stop)
}
