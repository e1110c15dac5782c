package jet

import (
	"slices"
	"time"

	"millrace/events"
	"millrace/events/jet/pubsub"
	"millrace/task/placement"
)

// choose decides where a waiter waits: at one lane, which is then asked for it, or, nil, at all
// sources. Or it returns an offer that was read ahead and whose turn it is. It passes over the lanes
// that the waiter found empty. With only set, it chooses only lanes of queues with a limit. A zero now
// means the present. The caller holds o.mu.
func (o *offers) choose(now time.Time, found []*source, only bool) (at *source, offer *events.Offer) {
	if !o.several() {
		return nil, nil // there is nothing to choose
	}
	if now.IsZero() {
		now = time.Now()
	}
	var open []placement.Lane
	for _, s := range o.sources {
		switch {
		case s.ahead > 0 && !only:
			open = s.open(open)
		case s.ahead > 0, s.shut, s.empty && !now.After(s.again), slices.Contains(found, s), only && !s.metered, s.metered && now.Before(o.limits[s.home].asking):
		default:
			open = append(open, s.lane)
		}
	}
	if len(open) == 0 {
		return nil, nil
	}
	next := o.turns.Next(open)
	at = o.at(next)
	if at.ahead > 0 {
		return nil, o.unstock(at, next)
	}
	if at.metered {
		o.limits[at.home].asking = now.Add(2 * pubsub.Silence)
	}
	if q := o.limits[at.home]; q != nil && q.full {
		at.checking++
		go o.check(at, q.limit)
	}
	return at, nil
}

// at returns the source of a lane.
func (o *offers) at(l placement.Lane) *source {
	for _, s := range o.sources {
		if s.lane == l || s.ahead > 0 && s.lane.Queue == l.Queue {
			return s
		}
	}
	return nil
}

// several tells whether there is anything to choose. The caller holds o.mu.
func (o *offers) several() bool {
	lanes := 0
	for _, s := range o.sources {
		if s.ahead == 0 {
			lanes++
		}
		if lanes > 1 || s.n > 0 {
			return true
		}
	}
	return false
}

// change is how many more offers (or, below 0, fewer) a source's puller and asker must be asked
// for.
type change struct {
	*source
	pull, ask int
}

// aim appends how the requests to the sources must change now that something has changed: the
// waiters, where they wait, what has come, or whether a source may be asked. The caller holds o.mu,
// and applies the changes after unlocking it.
func (o *offers) aim(changes []change) []change {
	for _, s := range o.sources {
		pull, ask := s.pulled, max(s.here-s.checking, 0)
		switch {
		case s.ahead == 0 && (s.shut || s.metered):
			pull = 0
		case s.ahead == 0:
			pull = o.standing
		case len(o.waiting) > 0 && s.n+s.pulled < s.ahead/2:
			if pull = s.ahead - s.n; s.behind > 0 {
				o.settle(s)
			}
		}
		if pull != s.pulled || ask != s.asked {
			changes = append(changes, change{s, pull - s.pulled, ask - s.asked})
			s.pulled, s.asked = pull, ask
		}
	}
	return changes
}

// apply changes the requests to the sources.
func apply(changes []change) {
	for _, c := range changes {
		if c.pull != 0 {
			c.source.pull.Want(c.pull)
		}
		if c.ask != 0 {
			c.source.ask.Want(c.ask)
		}
	}
}

// count records that n more wait at a source or, if it is nil, at all of them. The caller holds
// o.mu.
func (o *offers) count(at *source, n int) {
	if at == nil {
		o.standing += n
	} else {
		at.here += n
	}
}

// took records that an offer was taken from a lane. The caller holds o.mu.
func (o *offers) took(l placement.Lane) {
	var open []placement.Lane
	for _, s := range o.sources {
		if s.ahead > 0 {
			open = s.open(open)
		} else if !s.empty || s.lane == l {
			open = append(open, s.lane)
		}
	}
	o.turns.Took(l, open)
}

// came records what an offer says about its lane. The caller holds o.mu.
func (o *offers) came(from *source, pending uint64, taken bool) {
	if taken {
		o.took(from.lane)
	}
	if from.empty = pending == 0 && taken; from.empty {
		from.again = time.Now().Add(o.spell())
	}
}

// bare records that a lane is empty, or does not answer, and moves its waiters to another lane.
func (o *offers) bare(from *source, silent bool) {
	var hands []hand
	o.mu.Lock()
	now := time.Now()
	from.empty, from.again = true, now.Add(o.spell())
	if silent {
		from.again = now.Add(pubsub.Rest)
	}
	if q := o.limits[from.home]; from.metered && q != nil {
		q.asking, q.full = time.Time{}, q.full || silent
		from.again = now.Add(meterRest)
	}
	o.waiting = slices.DeleteFunc(o.waiting, func(w *waiter) bool {
		if w.at != from {
			return false
		}
		w.found = append(w.found, from)
		at, offer := o.choose(now, w.found, false)
		o.count(from, -1)
		if offer != nil {
			hands = append(hands, hand{w, offer})
			return true
		}
		w.at = at
		o.count(at, 1)
		return false
	})
	changes := o.aim(nil)
	o.mu.Unlock()
	apply(changes)
	give(hands)
}

// askAgain drops the requests that were made before the connection was lost.
func (o *offers) askAgain() {
	for _, s := range o.all() {
		s.ask.Forget()
		o.bare(s, false)
	}
}

// lookEvery is how often a worker whose slots are busy with other lanes asks empty lanes, counted
// over all of them.
const lookEvery = 10 * time.Millisecond

// spell is how long a worker leaves an empty lane alone. The caller holds o.mu.
func (o *offers) spell() time.Duration { return lookEvery * time.Duration(max(len(o.sources)-1, 1)) }

// Weigh implements [events.Offers].
func (o *offers) Weigh(weights map[string]int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.turns.Weights = weights
	for _, s := range o.sources {
		if s.ahead > 0 {
			o.turns.Weights = placement.WithOwn(weights, s.lane.Queue)
		}
	}
}
