package serve

import (
	"context"
	"encoding/json"
	"time"

	"millrace/events"
	"millrace/events/jet"
	"millrace/events/jet/outputs"
	"millrace/history/incident"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/wording"
	"millrace/projections"
	"millrace/scheduler"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/output"
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

// forget moves the horizon of the log, so that what ended long ago goes.
func (p *parts) forget(store *jet.Store, view *projections.Store, decider *scheduler.Scheduler) {
	c := &p.forgets
	c.Forget = scheduler.Forget{
		Rec: &events.Recorder{Log: store, Actor: events.PartScheduler, Now: store.Now, NewID: events.NewID}, Log: store,
		Keeping: scheduler.Keeping{Age: p.settings.KeepAge, Tasks: p.settings.KeepTasks, Queues: p.settings.KeepQueues},
		Model:   view, Ended: view.Ended, Sealer: p.sealer(store),
		Counts: decider.Counts,
		Settle: task.HorizonFor + store.AckWait(),
	}
	c.Every, c.First, c.Logger = 12*p.settings.Sweep, func() bool { return decider.First("horizon") }, p.log
	p.start(c.Run)
}

// held is what held the horizon of the log back when this process last looked, and when that was.
func (p *parts) held() (client.HorizonHold, time.Time) {
	is := p.forgets.Last()
	return client.HorizonHold(is.Held), is.At
}

// sealer keeps what the log forgets, where the setting archive says; nil if nowhere.
func (p *parts) sealer(store *jet.Store) scheduler.Sealer {
	where := p.settings.Archive
	if where == "" {
		return nil
	}
	s := &incident.Sealer{Log: store, To: incident.Folder(where), Import: store.Import()}
	if bucket, stored := settings.ArchiveBucket(where); stored {
		s.To = &outputs.Segments{Link: store.Link, Bucket: bucket, Replicas: p.settings.Replicas}
	}
	return s
}

// keep drops the output and records of tasks when their jobs, or else the settings, say so.
func (p *parts) keep(store *jet.Store, view *projections.Store) {
	rec := &events.Recorder{Log: store}
	p.keepOne(scheduler.Output, p.settings.LogKeep, left{view, rec, store.OutputTasks,
		func(ctx context.Context, t *task.Task, reason string, now time.Time) (bool, error) {
			return store.DropOutput(ctx, t.ID, func(n int) output.Lines {
				text := wording.Plural(n, "line") + " dropped: " + reason
				return output.Lines{Task: t.ID, Attempt: t.Attempt, Epoch: t.Epoch, Dropped: n, Lines: []output.Line{{N: 1, At: now, Stream: output.System, Text: text}}}
			})
		}, store.ForgetOutput})
	p.keepOne(scheduler.Records, p.settings.DataKeep, left{view, rec, store.RecordTasks,
		func(ctx context.Context, t *task.Task, reason string, now time.Time) (bool, error) {
			return store.DropRecords(ctx, t.ID, func(n int) output.Records {
				return output.Records{Task: t.ID, Attempt: t.Attempt, Epoch: t.Epoch, Items: []json.RawMessage{}, Dropped: n, Reason: reason}
			})
		}, store.ForgetRecords})
}

func (p *parts) keepOne(kind scheduler.Kind, policy scheduler.Policy, store left) {
	p.start((&scheduler.Retention{Kind: kind, Store: store, Policy: policy, Every: 12 * p.settings.Sweep, Now: p.clock.Now, Log: p.log}).Run)
}
