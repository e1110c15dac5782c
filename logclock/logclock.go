// Package logclock keeps the time on a machine whose own clock may be wrong, or jump.
//
// What a process writes into the log is read on other machines, and the server
// fires timers by its own clock. So a process asks the log now and then what time
// it is. As long as its machine agrees, the machine's time holds; else the log's.
// Between two answers time goes on as the monotonic clock does, so a machine whose
// clock is set meanwhile changes nothing. The package sets no clock and measures no
// durations: those are for the monotonic clock alone.
package logclock

import (
	"context"
	"sync"
	"time"
)

// Tolerance is how far a machine's clock may be from the log's, beyond what the
// way of the answer leaves open, before the log's time holds.
const Tolerance = time.Second

// Clock tells the time. Until it has heard of the log's it is the machine's.
// Safe for concurrent use.
type Clock struct {
	own func() time.Time

	mu   sync.Mutex
	base time.Time // guarded by mu; what the time was at heard, zero before that
	// heard is a reading of the monotonic clock. Guarded by mu.
	heard time.Time
}

// New returns a clock of a machine whose own is own.
func New(own func() time.Time) *Clock { return &Clock{own: own} }

// Now is the time, without a reading of the monotonic clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.base.IsZero() {
		return c.own().Round(0)
	}
	return c.base.Add(time.Since(c.heard)).Round(0)
}

// Hear tells the clock what time the log had, at some moment between asked and
// answered, which are readings of [time.Now]. It returns by how much the machine's
// clock is ahead of the log's, 0 if it agrees with it.
func (c *Clock) Hear(log, asked, answered time.Time) (ahead time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard = time.Now()
	own := c.own().Round(0)
	theirs := log.Add(c.heard.Sub(answered) + answered.Sub(asked)/2).Round(0)
	if ahead = own.Sub(theirs); ahead.Abs() <= Tolerance+answered.Sub(asked)/2 {
		c.base = own
		return 0
	}
	c.base = theirs
	return ahead
}

// Ask has ask find out what time the log has, and tells the clock.
func (c *Clock) Ask(ctx context.Context, ask func(context.Context) (time.Time, error)) (ahead time.Duration, err error) {
	asked := time.Now()
	log, err := ask(ctx)
	if err != nil {
		return 0, err
	}
	return c.Hear(log, asked, time.Now()), nil
}

// Follow asks again and again until ctx ends. It calls differs when the machine's
// clock begins or ceases to differ from the log's, with 0 for the latter. What ask
// does not find out is asked again.
func (c *Clock) Follow(ctx context.Context, every time.Duration, ask func(context.Context) (time.Time, error), differs func(ahead time.Duration)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for apart := false; ; {
		trying, enough := context.WithTimeout(ctx, every)
		ahead, err := c.Ask(trying, ask)
		enough()
		if err == nil && (ahead != 0) != apart {
			apart = !apart
			differs(ahead)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
