package jet

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"millrace/events"
	"millrace/events/jet/request"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/task/queue"
)

// offers passes offers from the sources to the slots that wait for one. While no source is known to
// have offers, the pullers of all of them wait for every slot. A lane that has offers is asked
// alone, by its asker: a slot that gets two offers has to return one. A route with one reader is
// also read ahead; see stock. aim decides how many offers each source is asked for.
type offers struct {
	store  *Store
	queues []string
	own    *ownRoute // proves the node, and remembers finished offers; may be nil
	once   sync.Once
	closed chan struct{}
	broken chan events.Break
	look   chan struct{}  // holds one: there may be another lane
	reread chan struct{}  // holds one: the settings of the queues may have changed
	watch  sync.WaitGroup // ends with closed
	// stopLooking ends a search for lanes in progress; set once.
	stopLooking func()

	also sync.Mutex
	// more are the queues that [offers.Also] has added, with the subscription to news of each one's
	// lanes. Guarded by also.
	more map[string]*nats.Subscription

	mu sync.Mutex
	// sources is replaced, never changed, so a slice that was read stays valid. Guarded by mu.
	sources  []*source
	waiting  []*waiter              // guarded by mu
	standing int                    // guarded by mu; how many of them wait at all sources
	turns    placement.Turns        // guarded by mu
	metering bool                   // guarded by mu; whether any source is metered
	patience time.Duration          // guarded by mu; see settleTime
	limits   map[string]*queueLimit // guarded by mu
	rates    map[string]queue.Rate  // guarded by mu
	flows    map[string]flow        // guarded by mu
}

type waiter struct {
	got chan *events.Offer
	// at is the source that is asked for this waiter, nil if it waits at all of them. Guarded by
	// offers.mu.
	at *source
	// found are the lanes that had nothing for this waiter, and are not asked for it again: behind a
	// slow link an empty one is due again before the others have answered. Guarded by offers.mu.
	found []*source
}

// hand is an offer and the waiter that gets it.
type hand struct {
	*waiter
	offer *events.Offer
}

var waiters = sync.Pool{New: func() any { return &waiter{got: make(chan *events.Offer, 1)} }}

// Offers implements [events.Offerer]. Each lane of a queue has one durable consumer that all
// workers share; the first worker makes that of the plain lane. The consumer of a node's own route
// serves only that node.
func (s *Store) Offers(ctx context.Context, queues []string) (events.Offers, error) {
	o := s.newOffers()
	looking, stopLooking := context.WithCancel(context.WithoutCancel(ctx))
	o.stopLooking = stopLooking
	forming := request.NewFormer(s.NC, s.patience)
	for _, queue := range queues {
		if id, ok := placement.NodeOf(queue); ok {
			o.own = newOwnRoute(s, node.ID(id))
		} else {
			o.queues = append(o.queues, queue)
		}
		err := forming.Do(ctx, func(ctx context.Context) error {
			err := o.serve(ctx, placement.Lane{Queue: queue, Priority: placement.DefaultPriority})
			// The consumer needs more servers than are up.
			if request.Answers(err, request.CodeResources) {
				err = fmt.Errorf("%w (%w)", request.ErrElecting, err)
			}
			return err
		})
		if err != nil {
			o.Close()
			return nil, err
		}
	}
	o.watch.Go(o.prolong)
	if err := o.watchLanes(ctx, looking); err != nil {
		o.Close()
		return nil, err
	}
	return o, nil
}

func (s *Store) newOffers() *offers {
	return &offers{
		store:       s,
		closed:      make(chan struct{}),
		broken:      make(chan events.Break, 1),
		limits:      map[string]*queueLimit{},
		flows:       map[string]flow{},
		patience:    settleTime,
		look:        make(chan struct{}, 1),
		reread:      make(chan struct{}, 1),
		stopLooking: func() {},
	}
}

// Next implements [events.Offers].
func (o *offers) Next(ctx context.Context) (*events.Offer, error) {
	for {
		offer, err := o.next(ctx)
		if offer != nil || err != nil {
			return offer, err
		}
	}
}

// next is Next, but may return nothing: then the caller calls it again.
func (o *offers) next(ctx context.Context) (*events.Offer, error) {
	var buf [4]change
	w := waiters.Get().(*waiter)
	o.mu.Lock()
	clear(w.found)
	w.found = w.found[:0]
	at, offer := o.choose(time.Time{}, nil, false)
	if offer == nil {
		w.at = at
		o.waiting = append(o.waiting, w)
		o.count(at, 1)
	}
	changes := o.aim(buf[:0])
	o.mu.Unlock()
	apply(changes)
	if offer != nil {
		waiters.Put(w)
		return offer, nil
	}
	select {
	case offer := <-w.got:
		waiters.Put(w)
		return offer, nil
	case <-ctx.Done():
	case <-o.closed:
	}
	if !o.leave(w) {
		// An offer came at the same moment.
		offer = <-w.got
	}
	waiters.Put(w)
	if offer != nil {
		return offer, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("offers: %w", nats.ErrConnectionClosed)
}

// leave removes a waiter, and tells whether it still waited.
func (o *offers) leave(w *waiter) bool {
	o.mu.Lock()
	i := slices.Index(o.waiting, w)
	if i < 0 {
		o.mu.Unlock()
		return false
	}
	o.remove(i)
	changes := o.aim(nil)
	o.mu.Unlock()
	apply(changes)
	return true
}

// remove removes a waiter. The caller holds o.mu.
func (o *offers) remove(i int) *waiter {
	w, last := o.waiting[i], len(o.waiting)-1
	o.waiting[i], o.waiting[last] = o.waiting[last], nil
	o.waiting = o.waiting[:last]
	o.count(w.at, -1)
	return w
}

// take takes what a source has delivered, asked or not. It gives the offer to a waiter, or keeps it
// if it was read ahead. It returns all others to the server at once, for another worker. It tells
// whether it accepted an offer that the source had been asked for.
func (o *offers) take(from *source, asked bool, m *nats.Msg) (accepted bool) {
	offer, pending := o.offer(m)
	switch from.track(offer) {
	case fresh:
	case stale:
		_ = offer.Ack() // else it comes again, and is stale again
		return false
	case reclaimed:
		return true
	case renewed:
		return false
	}
	var buf [4]change
	var hands []hand
	var w *waiter
	o.mu.Lock()
	shut, metered := from.shut, from.metered
	offer.Rate, offer.Valve = from.rate, from.valve
	if metered {
		offer.Lease = &meteredLease{offer.Lease.(*lease), &offer.Record}
	}
	if from.ahead == 0 && !shut {
		w = o.pick(from, asked)
	}
	if w != nil || from.ahead > 0 {
		accepted = from.brought(asked)
	}
	if from.ahead > 0 {
		hands = o.keep(from, offer, pending)
	} else if o.several() {
		o.came(from, pending, w != nil)
	}
	changes := o.aim(buf[:0])
	o.mu.Unlock()
	apply(changes) // withdraw the requests of other sources for the same slot
	switch {
	case from.ahead > 0:
		give(hands)
	case w == nil && shut && !metered: // a resting offer still counts as delivered
		_ = offer.Rest(shutRest)
	case w == nil:
		_ = offer.Return() // else the lease expires
	case metered:
		go o.giveMetered(w, from, offer)
	default:
		w.got <- offer
	}
	return accepted
}

// give passes offers to their waiters.
func give(hands []hand) {
	for _, h := range hands {
		h.got <- h.offer
	}
}

// pick removes the waiter that gets an offer: one for which it was asked, or else any. The caller
// holds o.mu.
func (o *offers) pick(from *source, asked bool) *waiter {
	n := len(o.waiting) - 1
	if n < 0 {
		return nil
	}
	at := n
	for i := n; i >= 0 && o.several(); i-- {
		if w := o.waiting[i]; w.at == from && asked || w.at == nil && !asked {
			at = i
			break
		}
	}
	return o.remove(at)
}

// offer decodes an offer, and how many more its consumer had when it sent that.
func (o *offers) offer(m *nats.Msg) (*events.Offer, uint64) {
	one := new(struct { // one allocation for both
		events.Offer
		lease lease
	})
	offer := &one.Offer
	d, ok := request.From(&offer.Record, m)
	if !ok {
		offer.Record = events.Record{
			Kind:  events.KindOffer,
			Place: m.Subject,
			Raw:   m.Data,
			Err:   fmt.Errorf("the server's reply subject %q cannot be read", m.Reply),
		}
	}
	offer.Deliveries = d.Delivered
	one.lease = lease{store: o.store, reply: m.Reply, deliveries: d.Delivered, conn: o.store.NC.Stats().Reconnects}
	offer.Lease = &one.lease
	return offer, d.Pending
}

// interrupted reports an interruption to the loop that looks after the node. One unread report
// stands for any number of them.
func (o *offers) interrupted(reason string, foreign bool) {
	select {
	case o.broken <- events.Break{At: time.Now(), Reason: reason, Foreign: foreign}:
	default:
	}
}

// Broken implements [events.Offers].
func (o *offers) Broken() <-chan events.Break { return o.broken }

// Trouble implements [events.Offers].
func (o *offers) Trouble() error {
	for _, s := range o.all() {
		if err := s.pull.Trouble(); err != nil {
			return err
		}
	}
	return nil
}

// all returns the current sources.
func (o *offers) all() []*source {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sources
}

// Close implements [events.Offers].
func (o *offers) Close() {
	o.once.Do(func() {
		close(o.closed)
		o.stopLooking() // its answer may have been lost with a connection
		o.watch.Wait()
		o.stopFlows()
		o.also.Lock()
		for _, sub := range o.more {
			unheard(sub)
		}
		o.also.Unlock()
		var ends sync.WaitGroup
		for _, s := range o.all() { // together: a server that does not answer is waited for once
			ends.Go(s.ask.Close)
			ends.Go(s.pull.Drain)
		}
		ends.Wait()
		for _, offer := range o.stocked(true) {
			_ = offer.Return() // else the lease expires
		}
	})
}
