package main

import (
	"context"

	"millrace/events"
	"millrace/jet"
	"millrace/retention"
	"millrace/task"
)

// kept is what retention needs of a store.
type kept struct {
	*jet.Store
	rec *events.Recorder
}

func (k kept) Load(ctx context.Context, id task.ID) (task.Task, error) { return k.rec.Load(ctx, id) }

// keepOutput drops what tasks have printed when the settings say so.
func (p *parts) keepOutput(store *jet.Store) {
	keeper := &retention.Keeper{
		Store:  kept{store, &events.Recorder{Log: store}},
		Policy: p.settings.LogKeep, Every: 12 * p.settings.Sweep, Now: p.clock.Now, Log: p.log,
	}
	p.start(keeper.Run)
}
