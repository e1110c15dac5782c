package simulation

import (
	"math/rand/v2"
	"time"
)

// weather is how bad a history's surroundings are. Histories differ in it, so
// that each fault also comes without the others: many faults at once hide
// what one of them does alone.
type weather struct {
	lost  float64 // share of writes of which the answer is lost
	blind float64 // share of reads that fail
	kill  float64 // share of calls before which, or after which, the process dies
	stop  float64 // share of calls before which the process is stopped for longer than a lease
	leap  float64 // share of steps in which much time passes
	noise float64 // share of steps in which a stranger writes
	lazy  float64 // share of attempts that do not look after their lease
	swift float64 // share of steps in which a delayed write arrives, if there is one
	// fresh is the share of what clients do that is about a new task.
	fresh float64
	// watched histories have schedulers. In the others nobody repairs anything;
	// their clients do not die, for what a client began only it or a scheduler can end.
	watched bool
	// pace is how much time passes in a step at most.
	pace time.Duration
}

func forecast(rng *rand.Rand) weather {
	share := func(worst float64) float64 {
		if rng.IntN(3) == 0 {
			return 0
		}
		return worst * rng.Float64()
	}
	w := weather{
		swift: 0.02 + rng.Float64()/4, fresh: 0.2 + rng.Float64()/2,
		watched: rng.IntN(3) > 0,
		pace:    20 * time.Millisecond,
	}
	if rng.IntN(10) == 0 {
		return w
	}
	w.lost, w.blind, w.kill, w.stop = share(0.3), share(0.1), share(0.04), share(0.03)
	w.leap, w.noise, w.lazy = share(0.06), share(0.06), share(0.3)
	w.pace += time.Duration(rng.IntN(200)) * time.Millisecond
	return w
}

// fateOf chooses what becomes of a call.
func (h *history) fateOf(a *actor) fate {
	w := &h.weather
	if a.mortal && h.chance(w.kill) {
		if h.rng.IntN(2) == 0 {
			return killed
		}
		return killedAfter
	}
	switch a.pending.kind {
	case read:
		if h.chance(w.blind) {
			return requestLost
		}
	case write, tell:
		if h.chance(w.lost) {
			return requestLost + fate(h.rng.IntN(3))
		}
	}
	return answered
}

// flight is a write whose answer was lost and which has not arrived yet.
type flight struct {
	actor string
	call  *call
}

// land lets one write arrive, not necessarily the first.
func (h *history) land(i int) {
	f := h.flying[i]
	h.flying = append(h.flying[:i], h.flying[i+1:]...)
	err := f.call.run()
	h.note(step{actor: f.actor, call: f.call, landed: true, err: err})
}

func (h *history) chance(p float64) bool { return p > 0 && h.rng.Float64() < p }
