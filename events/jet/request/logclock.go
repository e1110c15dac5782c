package request

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Tolerance is how far a machine's clock may be from the log's, beyond the uncertainty from the
// answer's travel time, before the log's time applies. A machine with NTP is well within it.
const Tolerance = 50 * time.Millisecond

// Apart is how far the machine's clock must be from the log's before [Clock.Follow] reports it.
const Apart = time.Second

// Intervals of [Clock.Renew].
const (
	// keptFor is how long an answer is valid without another one: within that time two monotonic
	// clocks drift apart by a few milliseconds at most.
	keptFor = 30 * time.Second
	// askAgain is how long Renew waits before it asks a log again that did not answer.
	askAgain = 5 * time.Second
)

// Clock keeps the log's time on a machine whose own clock may be wrong, or jump.
//
// The facts of a process are read on other machines, and the server fires timers by its own clock.
// So a process asks the log for its time. While the machine's clock agrees with the answer, the
// machine's time applies; otherwise the log's does. Between two answers time advances with the
// monotonic clock: setting the machine's clock changes nothing. A Clock sets no clock and
// measures no durations: use the monotonic clock for those.
//
// Until the first answer of the log it tells the machine's time. Safe for concurrent use.
type Clock struct {
	own func() time.Time

	mu    sync.Mutex              // held to change state
	state atomic.Pointer[reading] // what Now and Renew read for each fact, without a lock

	renewing sync.Mutex // held while Renew asks
}

// reading is the state of a clock. It is replaced, never changed.
type reading struct {
	base time.Time // the time at heard, zero before the first answer
	seen time.Time // the machine's clock at that moment
	// heard and tried are readings of the monotonic clock.
	heard, tried time.Time
	// leapt is the time, as the log's clock had gone until then, at which it was seen to be ahead of
	// that by leap; zero if it never was.
	leapt time.Time
	leap  time.Duration
}

// NewClock returns a clock of a machine whose clock is own; nil means [time.Now].
func NewClock(own func() time.Time) *Clock {
	if own == nil {
		own = time.Now
	}
	c := &Clock{own: own}
	c.state.Store(new(reading))
	return c
}

// change replaces the state of the clock.
func (c *Clock) change(by func(*reading)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := *c.state.Load()
	by(&next)
	c.state.Store(&next)
}

// Now is the time, without a reading of the monotonic clock.
func (c *Clock) Now() time.Time {
	is := c.state.Load()
	if is.base.IsZero() {
		return c.own().Round(0)
	}
	return is.base.Add(time.Since(is.heard)).Round(0)
}

// Hear tells the clock the log's time at some moment between asked and answered, which are readings
// of [time.Now]. It returns how far the machine's clock is ahead of the log's, 0 if they agree.
func (c *Clock) Hear(log, asked, answered time.Time) (ahead time.Duration) {
	c.change(func(is *reading) {
		if due := is.base.Add(answered.Sub(is.heard)); !is.base.IsZero() && log.Sub(due) > Apart {
			is.leapt, is.leap = due, log.Sub(due)
		}
		is.heard, is.seen = time.Now(), c.own().Round(0)
		is.base = log.Add(is.heard.Sub(answered) + answered.Sub(asked)/2).Round(0)
		if ahead = is.seen.Sub(is.base); ahead.Abs() <= Tolerance+answered.Sub(asked)/2 {
			is.base, ahead = is.seen, 0
		}
	})
	return ahead
}

// Leap returns the last leap of the log's clock: the time at which it was seen to be ahead of how it
// had gone until then, and by how much; zero if it was never more than [Apart] ahead. What the log
// stored at that time or before has its stamp from before the leap. The log's clock leaps when it is
// set, when another server takes the lead whose clock is ahead, and for a machine that has slept.
func (c *Clock) Leap() (until time.Time, by time.Duration) {
	is := c.state.Load()
	return is.leapt, is.leap
}

// Ask calls ask for the log's time, and tells the clock.
func (c *Clock) Ask(ctx context.Context, ask func(context.Context) (time.Time, error)) (ahead time.Duration, err error) {
	asked := time.Now()
	log, err := ask(ctx)
	if err != nil {
		return 0, err
	}
	return c.Hear(log, asked, time.Now()), nil
}

// Renew asks if the last answer is outdated, and returns when the answer is there or ask has given
// up. An answer is outdated after 30 s. It is outdated at once if the machine's clock and the
// monotonic one have diverged since: the machine's clock was set, or the machine slept, during
// which the monotonic clock stands still. A log that did not answer is not asked again for 5 s.
func (c *Clock) Renew(ask func() (time.Time, error)) {
	if !c.old() {
		return
	}
	c.renewing.Lock()
	defer c.renewing.Unlock()
	if !c.old() {
		return // another caller has asked meanwhile
	}
	c.change(func(is *reading) { is.tried = time.Now() })
	_, _ = c.Ask(context.Background(), func(context.Context) (time.Time, error) { return ask() }) // on failure, time advances as before
}

// old tells whether to ask the log again.
func (c *Clock) old() bool {
	is, now := c.state.Load(), time.Now()
	if !is.tried.IsZero() && now.Sub(is.tried) < askAgain && is.tried.After(is.heard) {
		return false
	}
	if is.base.IsZero() {
		return true
	}
	passed := now.Sub(is.heard)
	return passed > keptFor || (c.own().Round(0).Sub(is.seen)-passed).Abs() > Apart
}

// Follow asks repeatedly until ctx ends. It calls differs when the machine's clock becomes more
// than [Apart] away from the log's, and with 0 when that ends. After a failed ask it asks again.
func (c *Clock) Follow(ctx context.Context, every time.Duration, ask func(context.Context) (time.Time, error), differs func(ahead time.Duration)) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for apart := false; ; {
		trying, enough := context.WithTimeout(ctx, every)
		ahead, err := c.Ask(trying, ask)
		enough()
		if err == nil && (ahead.Abs() > Apart) != apart {
			if apart = !apart; !apart {
				ahead = 0
			}
			differs(ahead)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
