package simulation

import (
	"fmt"
	"math/rand/v2"
	"time"

	"millrace/events"
	"millrace/task"
)

// weather is how bad a history's surroundings are. It differs between histories, so that each fault
// also comes without the others: many faults at once hide the effect of a single one.
type weather struct {
	lost  float64 // share of writes whose answer is lost
	blind float64 // share of reads that fail
	kill  float64 // share of calls before which, or after which, the process dies
	stop  float64 // share of calls before which the process is stopped for longer than a lease
	leap  float64 // share of steps in which much time passes
	noise float64 // share of steps in which a stranger writes
	lazy  float64 // share of attempts that do not look after their lease
	early float64 // share of steps in which the server delivers a leased offer again
	skew  float64 // share of processes on a machine whose clock is wrong
	aimed float64 // share of tasks that are meant for certain nodes
	fatal float64 // share of tasks that kill the process that runs them
	swift float64 // share of steps in which a delayed write arrives, if there is one
	// fresh is the share of client actions that concern a new task.
	fresh float64
	// watched histories have schedulers. In the others nothing is repaired; their clients do not
	// die, because only a client or a scheduler can end what the client began.
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
		pace:    fairPace,
	}
	w.aimed, w.early = share(0.6), share(0.06)
	if rng.IntN(10) == 0 {
		return w
	}
	w.lost, w.blind, w.kill, w.stop = share(0.3), share(0.1), share(0.04), share(0.03)
	w.leap, w.noise, w.lazy, w.fatal = share(0.06), share(0.06), share(0.3), share(0.1)
	w.skew = share(1)
	w.pace += time.Duration(rng.IntN(200)) * time.Millisecond
	return w
}

// fairPace is fast enough for every actor to act in time.
const fairPace = 20 * time.Millisecond

// fair weather is that in which nothing goes wrong, apart from early deliveries of the server.
func (w *weather) fair() bool {
	return w.pace <= fairPace && w.lost+w.blind+w.kill+w.stop+w.leap+w.noise+w.lazy+w.fatal+w.skew == 0
}

// redeliver makes the server deliver leased offers again: one offer, as after a restart, or all of
// them, as when their consumers were lost. A fresh delivery counts as the first one.
func (h *history) redeliver() {
	if h.rng.IntN(8) == 0 {
		h.remark("server", "loses its consumers")
		h.mem.LoseConsumers()
		return
	}
	if out := h.mem.Out(); len(out) > 0 {
		seq, fresh := out[h.rng.IntN(len(out))], h.rng.IntN(2) == 0
		h.remark("server", fmt.Sprintf("hands out offer %d early", seq))
		h.mem.Redeliver(seq, fresh)
	}
}

// undisturbed checks that where nothing goes wrong, no scheduler has to repair anything, and no
// running attempt loses its task.
func (h *history) undisturbed() error {
	for _, s := range h.schedulers {
		if n := s.Repairs(); len(n) > 0 {
			return broken(errOwed, "nothing went wrong, and the scheduler had to repair %v", n)
		}
	}
	for id, s := range h.stories {
		if err := h.forgotten(id, s); err != nil {
			return err
		}
		err := s.told(func(r *events.Record) error {
			switch e := r.Fact.Event.(type) {
			case task.AttemptStarted:
				if e.TookOver == nil {
					return nil
				}
			case task.AttemptLost, task.AttemptLate:
			default:
				return nil
			}
			return broken(errOwed, "nothing went wrong, and task %s has %s%s", short(id), r.Fact.Type, about(r))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// forgotten finds the fire of a timer that was never removed although its task had ended long
// before. A timer that was no longer owed when it was set need not be removed.
func (h *history) forgotten(id task.ID, s story) error {
	t := task.Task{ID: id}
	for i := range s {
		r := &s[i]
		if _, fired := r.Fact.Event.(task.Due); fired && t.State.Terminal() && !h.late[id] && r.Stored.Sub(t.Since) > round {
			return broken(errOwed, "nothing went wrong, and a timer of task %s fires %v after its end", short(id), r.Stored.Sub(t.Since))
		}
		t = task.Evolve(t, r.Task())
	}
	return nil
}

// fateOf chooses the fate of a call.
func (h *history) fateOf(a *actor) fate {
	f := h.chanceOf(a)
	if f != answered && !h.fault() {
		return answered
	}
	return f
}

func (h *history) chanceOf(a *actor) fate {
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
	_ = f.call.run() // the caller never learns the result
	h.note(step{actor: f.actor, call: f.call, landed: true})
}

func (h *history) chance(p float64) bool { return p > 0 && h.rng.Float64() < p }
