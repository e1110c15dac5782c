package jet

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"millrace/events"
	"millrace/events/jet/request"
)

// A limit holds for a queue, but the server knows only limits of consumers. With one lane that is
// the same. With several, each consumer has the whole limit, and before a worker starts an offer it
// counts the offers that all consumers of the queue have delivered, its own included. If there are
// more than the limit, it returns the offer ([meteredLease]). So the limit is never exceeded: of
// any set of running tasks, the one that was counted last saw all the others. Workers do not wait
// at such lanes, for many deliveries would be in vain; they look now and then. While a queue is
// full they ask once per ack wait for offers whose worker is lost, which count until then.

// Times of a queue with a limit and several lanes.
const (
	// How long a full or empty one is left alone, plus or minus half.
	meterRest  = 200 * time.Millisecond
	meterNudge = 50 * time.Millisecond // how often waiters check whether one is due
)

// queueLimit is what a worker knows of a queue with a limit. It is guarded by offers.mu.
type queueLimit struct {
	limit int
	// several tells whether the queue has more lanes than those served here: lanes of selectors
	// that do not choose this node.
	several bool
	// full tells whether the queue was at its limit when last counted.
	full bool
	// asking is until when a waiter counts as asking; the others wait for its result.
	asking time.Time
	// retrieve is when to ask for offers of lost workers, if the queue is full until then.
	retrieve time.Time
}

// remeter finds out which lanes are metered, after lanes, limits or windows have changed. It
// returns the changes to the requests. The caller holds o.mu.
func (o *offers) remeter() []change {
	lanes := map[string]int{}
	for _, s := range o.sources {
		lanes[s.home]++
	}
	o.metering = false
	for _, s := range o.sources {
		q := o.limits[s.home]
		s.metered = q != nil && (q.several || lanes[s.home] > 1)
		o.metering = o.metering || s.metered && !s.shut
	}
	return o.aim(nil)
}

// limit records the limit of a queue, 0 for none, and whether it has several lanes.
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
	changes := o.remeter()
	o.mu.Unlock()
	apply(changes)
}

// check asks a lane of a queue that was full, for a waiter there, if the queue is no longer full.
func (o *offers) check(at *source, limit int) {
	full := o.leased(at.home) >= limit
	o.setFull(at.home, full)
	if full {
		o.bare(at, false)
	}
	o.mu.Lock()
	at.checking--
	changes := o.aim(nil)
	o.mu.Unlock()
	apply(changes)
}

// giveMetered gives an offer to a waiter if the limit of its queue allows; else it returns the offer and
// lets the waiter start again.
func (o *offers) giveMetered(w *waiter, from *source, offer *events.Offer) {
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
	_ = offer.Return() // else the lease expires
	w.got <- nil
}

// leased counts the offers that the consumers of a queue have delivered. If it cannot find out, it
// returns more than any limit.
func (o *offers) leased(queue string) int {
	ctx, cancel := o.store.Within(context.Background(), request.ReadTimeout)
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

// setFull records the count of a queue. If the queue is full, all its lanes are left alone for a
// while.
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

// nudge lets one of those that wait at all sources check each queue with a limit that is due.
func (o *offers) nudge() {
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
		if w.at, _ = o.choose(now, nil, true); w.at == nil {
			break // nothing is due
		}
		o.count(nil, -1)
		o.count(w.at, 1)
	}
	changes := o.aim(nil)
	o.mu.Unlock()
	apply(changes)
}

// retrieve asks those lanes of a queue that have delivered offers once more. It treats what they
// bring like any other offer: a lost one is counted already, and has its place.
func (o *offers) retrieve(queue string) {
	ctx, cancel := o.store.Within(context.Background(), request.ReadTimeout)
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
		s.ask.Want(1)
		s.ask.Want(-1) // the request has no waiter of its own; any waiter takes what comes
	}
}
