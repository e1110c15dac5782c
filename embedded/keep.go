package embedded

import (
	"context"
	"time"

	"millrace/events"
	"millrace/events/jet"
	"millrace/projections"
	"millrace/scheduler"
	"millrace/task"
)

// nodeTTL is how long heartbeats of workers of package millrace last.
const nodeTTL = 15 * time.Second

// keep looks after what the log holds: streams and copies of definitions that somebody has removed
// or changed, marks by which the server starts fast after a crash, and output and records that jobs
// keep only for a time.
func (h *house) keep(store *jet.Store, view *projections.Store, decider *scheduler.Scheduler, marks *jet.Marks, stirs *scheduler.Stirs) *scheduler.Collector {
	failed := func(err error) { h.log.Warn("the upkeep of the log failed; trying again", "error", err) }
	h.start(func(ctx context.Context) error {
		store.KeepStreams(ctx, h.layout, sweep, func(name string) {
			h.log.Error("a stream was deleted and is made again; what it held is lost", "stream", name)
		}, failed)
		return nil
	})
	h.start(func(ctx context.Context) error {
		store.KeepMarks(ctx, marks, func() bool { return decider.First("marks") }, failed)
		return nil
	})
	h.start(func(ctx context.Context) error {
		store.KeepCopies(ctx, sweep, func() bool { return decider.First("copies") }, func(task.CopiesRestored) {
			h.log.Warn("copies of definitions were changed, and are as the log has them again")
		}, failed)
		return nil
	})
	rec := &events.Recorder{Log: store}
	h.start((&scheduler.Retention{Kind: scheduler.Output, Now: store.Now, Log: h.log, Store: store.LeftLines(view, rec)}).Run)
	h.start((&scheduler.Retention{Kind: scheduler.Records, Now: store.Now, Log: h.log, Store: store.LeftRecords(view, rec)}).Run)
	forgets := &scheduler.Collector{Forget: scheduler.Forget{
		Rec: &events.Recorder{Log: store, Actor: events.PartScheduler, Now: store.Now, NewID: events.NewID}, Log: store,
		Keeping: scheduler.Keeping{Age: keepAge, Tasks: keepTasks}, Ended: view.Ended,
		Model:  view,
		Stirs:  stirs,
		Counts: decider.Counts,
		Settle: task.HorizonFor + store.AckWait(),
	}, First: func() bool { return decider.First("horizon") }, Logger: h.log}
	h.start(forgets.Run)
	return forgets
}

// How long what has ended stays, as with the defaults of the settings keep_age and keep_tasks.
const (
	keepAge   = 30 * 24 * time.Hour
	keepTasks = 1_000_000
)
