package jet

import (
	"time"

	"millrace/task"
)

// choose says who is asked for a waiter's offer; if only is set, it may be no other than
// a lane of a queue with a limit. A zero time is the present. The caller holds o.mu.
func (o *offers) choose(w *waiter, now time.Time, only bool) {
	w.at, w.in = nil, o.stand
	if o.lanes() < 2 {
		return // there is nothing to choose
	}
	if now.IsZero() {
		now = time.Now()
	}
	var open []task.Lane
	for _, s := range o.sources {
		if s.ask == nil || s.empty && !now.After(s.again) || only && !s.metered {
			continue
		}
		if s.metered && now.Before(o.limits[s.home].asking) {
			continue
		}
		open = append(open, s.lane)
	}
	if len(open) == 0 {
		return
	}
	next := o.turns.Next(open)
	for _, s := range o.sources {
		if s.ask != nil && s.lane == next {
			w.at = s
		}
	}
	if w.at.metered {
		o.limits[w.at.home].asking = now.Add(2 * askSilence)
	}
}

// lanes counts the sources that are not the own route. The caller holds o.mu.
func (o *offers) lanes() int {
	if o.own != nil {
		return len(o.sources) - 1
	}
	return len(o.sources)
}

// want asks for n more offers, or fewer, on behalf of waiters that are at a place; but not
// from the source that has been told already.
func (o *offers) want(at *source, in []*source, told *source, n int) {
	if at != nil {
		switch {
		case at == told:
		case n > 0:
			o.meter(at)
		default:
			at.ask.want(n)
		}
		if o.own != nil && (told == nil || told.pull != o.own.pull) {
			o.own.pull.want(n)
		}
		return
	}
	for _, s := range in {
		if s != told {
			s.pull.want(n)
		}
	}
}

// came notes what an offer says about its lane. The caller holds o.mu.
func (o *offers) came(from *source, pending uint64, taken bool) {
	now := time.Now()
	if taken {
		var open []task.Lane
		for _, s := range o.sources {
			if s.ask != nil && (!s.empty || s == from) {
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
	type move struct {
		at *source
		in []*source
	}
	var moves []move
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
		if w.at == from {
			o.choose(w, now, false)
			moves = append(moves, move{w.at, w.in})
		}
	}
	o.mu.Unlock()
	if len(moves) == 0 {
		return
	}
	from.ask.want(-len(moves))
	for _, m := range moves { // the own route knows of them already
		if m.at != nil {
			o.meter(m.at)
			continue
		}
		for _, s := range m.in {
			if s.ask != nil {
				s.pull.want(1)
			}
		}
	}
}

// askAgain gives up what was asked for before the connection was lost.
func (o *offers) askAgain() {
	o.mu.Lock()
	sources := o.sources
	o.mu.Unlock()
	for _, s := range sources {
		if s.ask != nil {
			s.ask.forget()
			o.bare(s, false)
		}
	}
}

// lookEvery bounds how often a worker whose slots are busy with other lanes asks lanes
// that had nothing: all together once in so long.
const lookEvery = 10 * time.Millisecond

// spell is how long a lane that has nothing is let be. The caller holds o.mu.
func (o *offers) spell() time.Duration { return lookEvery * time.Duration(o.lanes()-1) }

// Weigh implements [events.Offers].
func (o *offers) Weigh(weights map[string]int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.turns.Weights = weights
}
