package serve

import (
	"time"

	"millrace/events"
	"millrace/events/jet"
	"millrace/events/jet/outputs"
	"millrace/history/incident"
	"millrace/internal/cli/settings"
	"millrace/projections"
	"millrace/scheduler"
	"millrace/service/client"
	"millrace/task"
)

// forget moves the horizon of the log, so that what ended long ago goes.
func (p *parts) forget(store *jet.Store, view *projections.Store, stirs *scheduler.Stirs, decider *scheduler.Scheduler) {
	c := &p.forgets
	c.Forget = scheduler.Forget{
		Rec: &events.Recorder{Log: store, Actor: events.PartScheduler, Now: store.Now, NewID: events.NewID}, Log: store,
		Keeping: scheduler.Keeping{Age: p.settings.KeepAge, Tasks: p.settings.KeepTasks, Queues: p.settings.KeepQueues},
		Model:   view, Stirs: stirs, Ended: view.Ended, Sealer: p.sealer(store),
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
	p.keepOne(scheduler.Output, p.settings.LogKeep, store.LeftLines(view, rec))
	p.keepOne(scheduler.Records, p.settings.DataKeep, store.LeftRecords(view, rec))
}

func (p *parts) keepOne(kind scheduler.Kind, policy scheduler.Policy, store outputs.Left) {
	p.start((&scheduler.Retention{Kind: kind, Store: store, Policy: policy, Every: 12 * p.settings.Sweep, Now: p.clock.Now, Log: p.log}).Run)
}
