package serve

import (
	"context"
	"time"

	"millrace/events/jet"
)

// askTime is how often a process asks the log for the time.
const askTime = 5 * time.Second

// keepTime makes the process's clock follow the log's, and logs it when the machine's is wrong. The
// clock has known the log's time since the store was opened.
func (p *parts) keepTime(store *jet.Store) {
	if p.keeping {
		return
	}
	p.keeping = true
	p.start(func(ctx context.Context) error {
		p.clock.Follow(ctx, askTime, store.Time, func(ahead time.Duration) {
			if ahead == 0 {
				p.log.Info("this machine's clock agrees with that of the NATS server again")
				return
			}
			p.log.Warn("this machine's clock is not that of the NATS server: times are taken from the server; set the clock", "ahead", ahead.Round(time.Millisecond).String())
		})
		return nil
	})
}
