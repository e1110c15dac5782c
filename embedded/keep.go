package embedded

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"millrace/events"
	"millrace/events/jet"
	"millrace/projections"
	"millrace/scheduler"
	"millrace/task"
	"millrace/task/output"
)

// nodeTTL is how long heartbeats of workers of package millrace last.
const nodeTTL = 15 * time.Second

// keep looks after what the log holds: streams and copies of definitions that somebody has removed
// or changed, marks by which the server starts fast after a crash, and output and records that jobs
// keep only for a time.
func (h *house) keep(store *jet.Store, view *projections.Store, decider *scheduler.Scheduler, marks *jet.Marks) *scheduler.Collector {
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
	h.start((&scheduler.Retention{Kind: scheduler.Output, Now: store.Now, Log: h.log, Store: left{view, rec, store.OutputTasks,
		func(ctx context.Context, t *task.Task, reason string, now time.Time) (bool, error) {
			return store.DropOutput(ctx, t.ID, func(n int) output.Lines {
				said := output.Line{N: 1, At: now, Stream: output.System, Text: fmt.Sprintf("%d lines dropped: %s", n, reason)}
				return output.Lines{Task: t.ID, Attempt: t.Attempt, Epoch: t.Epoch, Dropped: n, Lines: []output.Line{said}}
			})
		}, store.ForgetOutput}}).Run)
	h.start((&scheduler.Retention{Kind: scheduler.Records, Now: store.Now, Log: h.log, Store: left{view, rec, store.RecordTasks,
		func(ctx context.Context, t *task.Task, reason string, _ time.Time) (bool, error) {
			return store.DropRecords(ctx, t.ID, func(n int) output.Records {
				return output.Records{Task: t.ID, Attempt: t.Attempt, Epoch: t.Epoch, Items: []json.RawMessage{}, Dropped: n, Reason: reason}
			})
		}, store.ForgetRecords}}).Run)
	forgets := &scheduler.Collector{Forget: scheduler.Forget{
		Rec: &events.Recorder{Log: store, Actor: events.PartScheduler, Now: store.Now, NewID: events.NewID}, Log: store,
		Keeping: scheduler.Keeping{Age: keepAge, Tasks: keepTasks}, Ended: view.Ended,
		Model:  view,
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

// left is what retention needs to know about one kind of what tasks leave.
type left struct {
	*projections.Store
	rec   *events.Recorder
	tasks func(context.Context) ([]task.ID, error)
	drop  func(ctx context.Context, t *task.Task, reason string, now time.Time) (bool, error)
	// forget removes what is from before a time.
	forget func(ctx context.Context, before time.Time) error
}

// Forget implements [scheduler.Store].
func (l left) Forget(ctx context.Context) error {
	before, err := l.RunsSince(ctx)
	if err != nil || before.IsZero() {
		return err
	}
	return l.forget(ctx, before)
}

func (l left) Tasks(ctx context.Context) ([]task.ID, error) { return l.tasks(ctx) }

func (l left) Load(ctx context.Context, id task.ID) (task.Task, error) { return l.rec.Load(ctx, id) }

func (l left) Drop(ctx context.Context, t *task.Task, reason string, now time.Time) (bool, error) {
	return l.drop(ctx, t, reason, now)
}
