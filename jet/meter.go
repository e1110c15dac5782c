package jet

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"millrace/events"
)

// A limit holds for a queue, and the server knows only limits of consumers. With one lane
// that is the same. With several, each consumer has the whole limit, and a worker that is handed an
// offer counts, before it starts it, what all consumers of the queue have handed out, its own included. If
// that is more than the limit it returns the offer ([meteredLease]). So the limit is never exceeded: of any
// set of tasks that run, the one that was counted last saw all the others. Workers do not wait at such
// lanes, for they would be handed much in vain; they look now and then. While a queue is full they ask
// once in an ack wait for what was handed out to somebody who is lost, which counts until then.

// Times of a queue with a limit and several lanes.
const (
	meterRest  = 200 * time.Millisecond // how long one that is full or empty is let be, give or take half of it
	meterNudge = 50 * time.Millisecond  // how often those who wait look whether one is due
)

// queueLimit is what a worker knows of a queue that has a limit. It is guarded by offers.mu.
type queueLimit struct {
	limit int
	// several is whether the queue has lanes besides those that are served here, of selectors that
	// do not choose this node.
	several bool
	// full is whether it was at its limit when last counted.
	full bool
	// asking is until when somebody is taken to be asking; the others wait for what he finds.
	asking time.Time
	// retrieve is when to ask for what was handed out and is lost, if it is full until then.
	retrieve time.Time
}

// remeter finds out where one may stand and wait, after lanes, limits or windows have changed. It
// returns what is to be asked for then. The caller holds o.mu.
func (o *offers) remeter() (do func()) {
	lanes := map[string]int{}
	for _, s := range o.sources {
		lanes[s.home]++
	}
	old, stand := o.stand, make([]*source, 0, len(o.sources))
	o.metering = false
	for _, s := range o.sources {
		q := o.limits[s.home]
		switch s.metered = q != nil && (q.several || lanes[s.home] > 1); {
		case s.shut:
		case s.metered:
			o.metering = true
		case s.own == nil:
			stand = append(stand, s)
		}
	}
	o.stand = stand
	standing := 0
	for _, w := range o.waiting {
		if w.at == nil {
			w.in = stand
			standing++
		}
	}
	if standing == 0 {
		return func() {}
	}
	change := map[*source]int{}
	for _, s := range old {
		change[s] -= standing
	}
	for _, s := range stand {
		change[s] += standing
	}
	return func() {
		for s, n := range change {
			if n != 0 {
				s.pull.want(n)
			}
		}
	}
}

// limit notes the limit of a queue, and whether it has several lanes; 0 is none.
func (o *offers) limit(queue string, limit int, several bool) {
	o.mu.Lock()
	known := o.limits[queue]
	switch {
	case limit == 0 && known == nil, known != nil && known.limit == limit && known.several == several:
		o.mu.Unlock()
		return
	case limit == 0:
		delete(o.limits, queue)
	default:
		o.limits[queue] = &queueLimit{limit: limit, several: several}
	}
	do := o.remeter()
	o.mu.Unlock()
	do()
}

// meter asks a lane of a queue with a limit, unless that is known to be full and still is.
func (o *offers) meter(at *source) {
	o.mu.Lock()
	q := o.limits[at.home]
	if q == nil || !q.full {
		o.mu.Unlock()
		at.ask.want(1)
		return
	}
	limit := q.limit
	o.mu.Unlock()
	go func() {
		if o.leased(at.home) < limit {
			o.setFull(at.home, false)
			at.ask.want(1)
			return
		}
		o.setFull(at.home, true)
		at.ask.credit()
		o.bare(at, false)
	}()
}

// admit gives an offer to a waiter if the limit of its queue allows, or else returns it and
// has the waiter begin anew.
func (o *offers) admit(w *waiter, from *source, offer *events.Offer) {
	queue := from.home
	o.mu.Lock()
	q := o.limits[queue]
	o.mu.Unlock()
	if q == nil || o.leased(queue) <= q.limit {
		o.setFull(queue, false)
		w.got <- offer
		return
	}
	o.setFull(queue, true)
	_ = offer.Return() // else the lease runs out
	w.got <- nil
}

// leased counts what the consumers of a queue have handed out. If that cannot be known it is
// too many.
func (o *offers) leased(queue string) int {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	lanes, err := o.store.QueueState(ctx, queue)
	if err != nil {
		return int(^uint(0) >> 1)
	}
	n := 0
	for _, l := range lanes {
		n += l.Leased
	}
	return n
}

// setFull notes what was found of a queue. If it is full, all its lanes are let be for a while.
func (o *offers) setFull(queue string, full bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	q := o.limits[queue]
	if q == nil {
		return
	}
	if full && !q.full {
		q.retrieve = time.Now().Add(o.store.ackWait/2 + rand.N(o.store.ackWait))
	}
	q.full, q.asking = full, time.Time{}
	if !full {
		return
	}
	again := time.Now().Add(meterRest/2 + rand.N(meterRest))
	for _, s := range o.sources {
		if s.metered && s.home == queue {
			s.empty, s.again = true, again
		}
	}
}

// nudge has one of those who stand and wait look at each queue with a limit that is due.
func (o *offers) nudge() {
	type move struct {
		stance
		from []*source
	}
	var moves []move
	o.mu.Lock()
	now := time.Now()
	for queue, q := range o.limits {
		if q.full && len(o.waiting) > 0 && now.After(q.retrieve) {
			q.retrieve = now.Add(o.store.ackWait/2 + rand.N(o.store.ackWait))
			go o.retrieve(queue)
		}
	}
	for _, w := range o.waiting {
		if w.at != nil {
			continue
		}
		in := w.in
		if o.choose(w, now, true); w.at == nil {
			break // nothing is due
		}
		moves = append(moves, move{w.stance, in})
	}
	o.mu.Unlock()
	for _, m := range moves {
		for _, s := range m.from {
			s.pull.want(-1)
		}
		o.meter(m.at)
	}
}

// retrieve asks the lanes of a queue that have handed out something once more. What they bring
// is taken like anything else: if it was lost it is counted already, and has its place.
func (o *offers) retrieve(queue string) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	lanes, err := o.store.QueueState(ctx, queue)
	if err != nil {
		return // the next time will do
	}
	o.mu.Lock()
	var from []*source
	for _, s := range o.sources {
		if s.metered && !s.shut && slices.ContainsFunc(lanes, func(l LaneState) bool { return l.Lane == s.lane && l.Leased > 0 }) {
			from = append(from, s)
		}
	}
	o.mu.Unlock()
	for _, s := range from {
		s.ask.want(1)
		s.ask.want(-1) // nobody waits for it; whoever waits gets what comes
	}
}
