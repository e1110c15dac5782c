package simulation

import (
	"context"
	"math/rand/v2"
	"time"

	"millrace/events/jet/request"
)

// clockError bounds the error of a process about the log's time: the tolerance of its clock, the
// round trip of the answer, and the drift of its machine since.
const clockError = request.Tolerance + askAgain/2 + 50*time.Millisecond

// Clocks of machines that are wrong.
const (
	farOff = 10 * time.Minute // by which one is wrong at most
	drift  = 1000             // of so many seconds it gains or loses one at most
)

// machine is the clock of an actor's machine: that of the log, or one that is wrong by up to the
// tolerance of [request.Clock], or by up to 10 minutes. It drifts, and may be set right later.
func (h *history) machine() func() time.Time {
	if !h.chance(h.weather.skew) {
		return time.Now
	}
	within := farOff
	if h.rng.IntN(2) == 0 {
		within = request.Tolerance
	}
	wrong := between(h.rng, -within, within)
	rate := 2*h.rng.Float64() - 1
	mended := time.Now().Add(h.upTo(5 * time.Minute))
	began := time.Now()
	return func() time.Time {
		now := time.Now()
		gained := time.Duration(rate * float64(now.Sub(began)) / drift)
		if now.Before(mended) {
			gained += wrong
		}
		return now.Round(0).Add(gained)
	}
}

func between(rng *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(rng.Int64N(int64(most-least)+1))
}

// askAgain is how often a process asks the log for its time.
const askAgain = 5 * time.Second

// now returns the time by the actor's clock.
func (a *actor) now() time.Time { return a.clock.Now() }

// setClock asks the log for its time: insisting before the actor does anything else, and after that
// now and then.
func (a *actor) setClock(insist bool) {
	for insist || time.Since(a.asked) >= askAgain {
		asked := time.Now()
		var log time.Time
		err := a.call(&call{kind: read, op: "ask for the time", do: func() error { log = time.Now(); return nil }})
		if err == nil && time.Since(asked) > askAgain {
			err = context.DeadlineExceeded
		}
		if err == nil {
			a.asked = asked
			a.clock.Hear(log, asked, time.Now())
		}
		if err == nil || !insist {
			return
		}
	}
}
