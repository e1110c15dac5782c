package serve

import (
	"context"
	"time"

	"millrace/jet"
	"millrace/monitor"
)

// watchLog keeps track of whether the log takes messages.
func (p *parts) watchLog(store *jet.Store) {
	if p.mute != nil {
		return
	}
	p.mute = &monitor.Log{Takes: store.Takes}
	if p.own != nil {
		p.mute.Trouble = p.own.Trouble
	}
	p.figures.watchLog(p.mute)
	p.start(p.mute.Run)
}

// sizeTime bounds giving the streams their sizes.
const sizeTime = 30 * time.Second

// size gives the streams beside the log their sizes.
func (p *parts) size(store *jet.Store) error {
	ctx, cancel := context.WithTimeout(p.ctx, sizeTime)
	defer cancel()
	return store.Size(ctx, p.settings.Sizes, p.room())
}

// room returns how many bytes the streams may hold together; 0 if this process does not know.
func (p *parts) room() int64 {
	if p.own == nil {
		return p.settings.Store
	}
	return p.own.Store()
}

// watchStore adds metrics of how much the streams hold, and may hold.
func (p *parts) watchStore(store *jet.Store) {
	s := &monitor.Store{
		Usages: func(ctx context.Context) ([]monitor.Usage, error) {
			all, err := store.Usages(ctx, p.room())
			usages := make([]monitor.Usage, len(all))
			for i, u := range all {
				usages[i] = monitor.Usage(u)
			}
			return usages, err
		},
		Failed: p.figures.monitor.Failed,
	}
	if p.own != nil {
		s.Free = p.own.Free
	}
	p.figures.monitor.Add(s)
}
