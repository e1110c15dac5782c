package main

import (
	"context"
	"os"
	"strings"
	"time"

	"millrace/cmd/millrace/chaos"
	"millrace/jet"
	"millrace/logclock"
)

// machineClock is the clock of this machine, or what `millrace chaos`, which must
// not touch that, tells this process to take for it.
func machineClock() func() time.Time {
	path := os.Getenv(chaos.ShiftEnv)
	if path == "" {
		return time.Now
	}
	return func() time.Time {
		text, _ := os.ReadFile(path) // without one, nothing is wrong
		shift, _ := time.ParseDuration(strings.TrimSpace(string(text)))
		return time.Now().Round(0).Add(shift)
	}
}

// askTime is how often a process asks the log what time it is.
const askTime = 5 * time.Second

// keepTime has the process's clock follow the log's, from before it writes anything.
func (p *parts) keepTime(store *jet.Store) {
	if p.clock != nil {
		return
	}
	p.clock = logclock.New(machineClock())
	first, enough := context.WithTimeout(p.ctx, askTime)
	defer enough()
	_, _ = p.clock.Ask(first, store.Time) // what cannot be had now is asked again at once
	p.start(func(ctx context.Context) error {
		p.clock.Follow(ctx, askTime, store.Time, func(ahead time.Duration) {
			if ahead == 0 {
				p.log.Info().Msg("this machine's clock agrees with that of the NATS server again")
				return
			}
			p.log.Warn().Dur("ahead", ahead).Msg("this machine's clock is not that of the NATS server: times are taken from the server; set the clock")
		})
		return nil
	})
}
