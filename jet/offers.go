package jet

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"millrace/events"
	"millrace/node"
	"millrace/task"
)

// offers hands what the pullers and askers bring to whoever waits. While nothing is
// known to be anywhere, all pullers wait for each of those. A lane that has something is asked
// alone, by its asker: who is handed two offers for one place has to return one. A node's own route
// is read ahead beside that, see stock.
type offers struct {
	store  *Store
	queues []string
	own    *ownRoute // nil without one
	once   sync.Once
	closed chan struct{}
	broken chan events.Break
	look   chan struct{}  // holds one: there may be another lane
	turn   chan struct{}  // holds one: a queue may have opened or closed
	watch  sync.WaitGroup // ends with closed
	// stopLooking ends a look for lanes that is under way; set once.
	stopLooking func()

	also sync.Mutex
	// more are the queues that [offers.Also] has added, and what tells of new lanes of each. Guarded by also.
	more map[string]*nats.Subscription

	mu sync.Mutex
	// sources and pullers are replaced, so a slice that was read stays as it is. Guarded by mu.
	sources []*source
	pullers []*puller
	waiting []*waiter  // guarded by mu
	turns   task.Turns // guarded by mu
	// stand are the sources at which one may stand and wait; metering is whether those are not
	// all. Guarded by mu, and a slice that was read stays as it is.
	stand    []*source
	metering bool
	stock    stock                     // guarded by mu; what was read of the own route
	limits   map[string]*queueLimit    // guarded by mu
	rates    map[string]task.QueueRate // guarded by mu
	flows    map[string]flow           // guarded by mu
}

type waiter struct {
	got    chan *events.Offer
	stance // guarded by offers.mu
}

var waiters = sync.Pool{New: func() any { return &waiter{got: make(chan *events.Offer, 1)} }}

// Offers implements [events.Offerer]. Each lane of a queue has one durable consumer
// that all workers share; that of the plain lane is made when the first of them comes. A
// node's own route has one that is the node's alone.
func (s *Store) Offers(ctx context.Context, queues []string) (events.Offers, error) {
	o := s.newOffers()
	looking, stopLooking := context.WithCancel(context.WithoutCancel(ctx))
	o.stopLooking = stopLooking
	forming := newFormer(s.nc, s.patience)
	for _, queue := range queues {
		lane := task.Lane{Queue: queue, Priority: task.DefaultPriority}
		if id, ok := task.NodeOf(queue); ok {
			o.own = newOwnRoute(s, node.ID(id))
		} else {
			o.queues = append(o.queues, queue)
		}
		err := forming.do(ctx, func(ctx context.Context) (err error) {
			if o.own != nil && o.own.lane == lane {
				_, err = o.serveOwn(ctx)
			} else {
				_, err = o.serveLane(ctx, lane)
			}
			if answers(err, codeResources) { // for a consumer that is to be on more servers than are up
				err = fmt.Errorf("%w (%w)", ErrElecting, err)
			}
			return err
		})
		if err != nil {
			o.Close()
			return nil, err
		}
	}
	if o.own != nil {
		o.watch.Go(o.prolong)
	}
	if err := o.watchLanes(ctx, looking); err != nil {
		o.Close()
		return nil, err
	}
	return o, nil
}

func (s *Store) newOffers() *offers {
	return &offers{
		store: s, closed: make(chan struct{}), broken: make(chan events.Break, 1), limits: map[string]*queueLimit{}, flows: map[string]flow{}, stock: stock{patience: ownSettle},
		look: make(chan struct{}, 1), turn: make(chan struct{}, 1), stopLooking: func() {},
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

// next is Next, but may come back with nothing: then it is to be called again.
func (o *offers) next(ctx context.Context) (*events.Offer, error) {
	w := waiters.Get().(*waiter)
	o.mu.Lock()
	more := o.reach(len(o.waiting) + 1)
	if offer := o.choose(w, time.Time{}, false); offer != nil {
		more += o.reach(len(o.waiting))
		o.mu.Unlock()
		waiters.Put(w)
		o.read(more)
		return offer, nil
	}
	o.waiting = append(o.waiting, w)
	where := w.stance
	o.mu.Unlock()
	o.want(where, nil, 1)
	o.read(more)
	select {
	case offer := <-w.got:
		waiters.Put(w)
		return offer, nil
	case <-ctx.Done():
	case <-o.closed:
	}
	where, more, waits := o.leave(w)
	if !waits {
		// It came at the same moment.
		offer := <-w.got
		waiters.Put(w)
		if offer != nil {
			return offer, nil
		}
	} else {
		o.want(where, nil, -1)
		o.read(more)
		waiters.Put(w)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("offers: %w", nats.ErrConnectionClosed)
}

// leave takes a waiter out, and tells where it was, what is to be read of the own route then, and whether
// it still waited.
func (o *offers) leave(w *waiter) (where stance, more int, waits bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, other := range o.waiting {
		if other == w {
			o.waiting = append(o.waiting[:i], o.waiting[i+1:]...)
			return w.stance, o.reach(len(o.waiting)), true
		}
	}
	return stance{}, 0, false
}

// take gives an offer to somebody who waits. If nobody waits it goes back
// to the server at once, for somebody who can start it.
func (o *offers) take(from *source, asked bool, m *nats.Msg) bool {
	offer, pending := o.offer(m)
	o.mu.Lock()
	var w *waiter
	shut := from.shut
	if !shut {
		w = o.pick(from, asked)
	}
	if o.several() {
		o.came(from, pending, w != nil)
	}
	metered := from.metered
	offer.Rate, offer.Window = from.rate, from.window
	if metered {
		offer.Lease = &meteredLease{offer.Lease.(*lease), &offer.Fact, offer.Place}
	}
	if w == nil {
		o.mu.Unlock()
		if shut && !metered { // what rests counts as handed out
			_ = offer.Rest(shutRest)
		} else {
			_ = offer.Return() // else the lease runs out
		}
		return false
	}
	where, more := w.stance, o.reach(len(o.waiting))
	o.mu.Unlock()
	// Whoever else was asked for the same place need not look for it any more.
	told := from
	wanted := where.counts(from, asked)
	if !wanted {
		told = nil
	}
	o.want(where, told, -1)
	o.read(more)
	if metered {
		go o.admit(w, from, offer)
	} else {
		w.got <- offer
	}
	return wanted
}

// takeOwn takes what has come on the node's own route.
func (o *offers) takeOwn(m *nats.Msg) (accepted bool) {
	o.own.came()
	if isProbe(m.Subject) {
		_ = o.store.nc.Publish(m.Reply, ackBody) // else it comes again, and proves that once more
		return false
	}
	offer, pending := o.offer(m)
	switch o.own.track(offer) {
	case fresh:
		o.stockUp(offer, pending) // and counts it
	case stale:
		_ = offer.Ack() // else it comes again, and is stale again
	case reclaimed:
		return true
	case renewed:
	}
	return false
}

// pick takes the waiter out to whom an offer goes: one for whom it was asked, or else any. The caller holds
// o.mu.
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
	w := o.waiting[at]
	o.waiting[at] = o.waiting[n]
	o.waiting = o.waiting[:n]
	return w
}

// offer reads an offer, and how many more its consumer had when it sent that.
func (o *offers) offer(m *nats.Msg) (*events.Offer, uint64) {
	one := new(struct { // both at once
		events.Offer
		lease lease
	})
	offer := &one.Offer
	d, ok := recordFrom(&offer.Record, m)
	if !ok {
		offer.Record = events.Record{Kind: events.KindOffer, Place: m.Subject, Raw: m.Data, Err: fmt.Errorf("the server's reply subject %q cannot be read", m.Reply)}
	}
	offer.Deliveries = d.delivered
	one.lease = lease{store: o.store, reply: m.Reply, deliveries: d.delivered}
	offer.Lease = &one.lease
	return offer, d.pending
}

// interrupted tells whoever looks after the node. One word that was not heard yet
// stands for any number of them.
func (o *offers) interrupted(reason string) {
	select {
	case o.broken <- events.Break{At: time.Now(), Reason: reason}:
	default:
	}
}

// Broken implements [events.Offers].
func (o *offers) Broken() <-chan events.Break { return o.broken }

// Trouble implements [events.Offers].
func (o *offers) Trouble() error {
	for _, p := range o.all() {
		if err := p.trouble(); err != nil {
			return err
		}
	}
	return nil
}

// all returns the pullers there are.
func (o *offers) all() []*puller {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.pullers
}

// Close implements [events.Offers].
func (o *offers) Close() {
	o.once.Do(func() {
		close(o.closed)
		o.stopLooking() // the answer may have been lost with a connection
		o.watch.Wait()
		o.lookNoMore()
		o.also.Lock()
		for _, sub := range o.more {
			unheard(sub)
		}
		o.also.Unlock()
		o.mu.Lock()
		sources := o.sources
		o.mu.Unlock()
		for _, s := range sources {
			if s.ask != nil {
				s.ask.close()
			}
			s.pull.drain()
		}
		o.giveBack()
	})
}
