package serve

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"millrace/events"
	"millrace/events/jet"
	"millrace/events/jet/request"
	"millrace/internal/observe"
)

// watchLog keeps track of whether the log takes messages.
func (p *parts) watchLog(store *jet.Store) {
	if p.mute != nil {
		return
	}
	p.mute = &observe.Log{Takes: store.Takes, Say: sayMute(p.log, store.NC.IsConnected)}
	if p.own != nil {
		// What guards the embedded server finds the reason sooner, and says it.
		p.mute.Trouble, p.mute.Say = p.own.Trouble, nil
	}
	p.figures.watchLog(p.mute)
	p.start(p.mute.Run)
}

// sayMute returns what logs once that the log has stopped taking messages, and once that it takes
// them again. Without a connection it logs nothing: that has a line of its own.
func sayMute(log *slog.Logger, connected func() bool) func(wrong error) {
	said := false
	return func(wrong error) {
		switch mute := errors.Is(wrong, events.ErrMute) || errors.Is(wrong, request.ErrElecting); {
		case mute && !said && connected():
			log.Error("the log takes no messages; submissions, starts and ends of tasks wait", "error", wrong)
			said = true
		case wrong == nil && said:
			log.Info("the log takes messages again")
			said = false
		}
	}
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
	s := &observe.Store{
		Usages: func(ctx context.Context) ([]observe.Usage, error) {
			all, err := store.Usages(ctx, p.room())
			usages := make([]observe.Usage, len(all))
			for i, u := range all {
				usages[i] = observe.Usage(u)
			}
			return usages, err
		},
		Oldest: func(ctx context.Context) (oldest time.Time, err error) {
			_, oldest, err = store.StoredAt(ctx, time.Time{})
			return oldest, err
		},
		Held: func() (string, time.Time) {
			is := p.forgets.Last()
			return is.By, is.Since
		},
		Now: p.clock.Now, Failed: p.figures.monitor.Failed,
	}
	if p.own != nil {
		s.Free = p.own.Free
	}
	p.figures.monitor.Add(s)
}
