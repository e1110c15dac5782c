package jet

import (
	"slices"
	"time"

	"millrace/events"
	"millrace/task"
)

// choose says who is asked for a waiter's offer, or returns one of the own route if that has its turn. If
// only is set, it may be no other than a lane of a queue with a limit. A zero time is the present.
// The caller holds o.mu.
func (o *offers) choose(w *waiter, now time.Time, only bool) *events.Offer {
	w.stance = stance{in: o.stand}
	if !o.several() {
		return nil // there is nothing to choose
	}
	if now.IsZero() {
		now = time.Now()
	}
	var open []task.Lane
	for _, s := range o.sources {
		if s.own != nil || s.shut || s.empty && !now.After(s.again) || only && !s.metered {
			continue
		}
		if s.metered && now.Before(o.limits[s.home].asking) {
			continue
		}
		open = append(open, s.lane)
	}
	if !only {
		open = o.stock.open(open)
	}
	if len(open) == 0 {
		return nil
	}
	next := o.turns.Next(open)
	if o.own != nil && next.Queue == o.own.lane.Queue {
		return o.unstock(next)
	}
	for _, s := range o.sources {
		if s.lane == next {
			w.at = s
		}
	}
	if w.at.metered {
		o.limits[w.at.home].asking = now.Add(2 * askSilence)
	}
	return nil
}

// several tells whether there is anything to choose. The caller holds o.mu.
func (o *offers) several() bool { return o.lanes() > 1 || o.stock.n > 0 }

// lanes counts the sources that are asked for single offers. The caller holds o.mu.
func (o *offers) lanes() int {
	if o.own != nil {
		return len(o.sources) - 1
	}
	return len(o.sources)
}

// stance is where a waiter waits.
type stance struct {
	// at is the lane that is asked for it, nil if all pullers of in wait for it.
	at *source
	in []*source
}

// counts tells whether what a source brings, having been asked or not, is an offer for which it was told that
// the waiter wants one.
func (w *stance) counts(from *source, asked bool) bool {
	if w.at == nil {
		return !asked
	}
	return asked && w.at == from
}

// want asks for n more offers, or fewer, on behalf of waiters with a stance; but not
// from the source that has been told already.
func (o *offers) want(w stance, told *source, n int) {
	if w.at != nil {
		switch {
		case w.at == told:
		case n > 0:
			o.meter(w.at)
		default:
			w.at.ask.want(n)
		}
		return
	}
	for _, s := range w.in {
		if s != told {
			s.pull.want(n)
		}
	}
}

// came notes what an offer says about its lane. The caller holds o.mu.
func (o *offers) came(from *source, pending uint64, taken bool) {
	now := time.Now()
	if taken {
		open := o.stock.open(nil)
		for _, s := range o.sources {
			if s.own == nil && (!s.empty || s == from) {
				open = append(open, s.lane)
			}
		}
		o.turns.Took(from.lane, open)
	}
	if from.empty = pending == 0 && taken; from.empty {
		from.again = now.Add(o.spell())
	}
}

// bare notes that a lane has nothing, or does not say, and finds another one for those who
// waited for it.
func (o *offers) bare(from *source, silent bool) {
	var moves []stance
	given := map[*waiter]*events.Offer{}
	o.mu.Lock()
	now := time.Now()
	from.empty, from.again = true, now.Add(o.spell())
	if silent {
		from.again = now.Add(askRest)
	}
	if q := o.limits[from.home]; from.metered && q != nil {
		q.asking, q.full = time.Time{}, q.full || silent
		from.again = now.Add(meterRest)
	}
	for _, w := range o.waiting {
		if w.at != from {
			continue
		}
		if offer := o.choose(w, now, false); offer != nil {
			given[w] = offer
			continue
		}
		moves = append(moves, w.stance)
	}
	if len(given) > 0 {
		o.waiting = slices.DeleteFunc(o.waiting, func(w *waiter) bool { return given[w] != nil })
	}
	more := o.reach(len(o.waiting))
	o.mu.Unlock()
	o.read(more)
	if len(moves)+len(given) == 0 {
		return
	}
	from.ask.want(-len(moves) - len(given))
	for w, offer := range given {
		w.got <- offer
	}
	for _, m := range moves {
		if m.at != nil {
			o.meter(m.at)
			continue
		}
		for _, s := range m.in {
			s.pull.want(1)
		}
	}
}

// askAgain gives up what was asked for before the connection was lost.
func (o *offers) askAgain() {
	o.mu.Lock()
	sources := o.sources
	o.mu.Unlock()
	for _, s := range sources {
		if s.own == nil {
			s.ask.forget()
			o.bare(s, false)
		}
	}
}

// lookEvery bounds how often a worker whose slots are busy with other lanes asks lanes
// that had nothing: all together once in so long.
const lookEvery = 10 * time.Millisecond

// spell is how long a lane that has nothing is let be. The caller holds o.mu.
func (o *offers) spell() time.Duration { return lookEvery * time.Duration(max(o.lanes()-1, 1)) }

// Weigh implements [events.Offers].
func (o *offers) Weigh(weights map[string]int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.turns.Weights = weights; o.own != nil {
		o.turns.Weights = task.WithOwn(weights, o.own.lane.Queue)
	}
}
