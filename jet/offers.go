package jet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"millrace/events"
	"millrace/node"
	"millrace/task"
)

// Offers implements [events.Offerer]. Each lane of a queue has one durable consumer
// that all workers share; that of the plain lane is made when the first of them comes. A
// node's own route has one that is the node's alone.
func (s *Store) Offers(ctx context.Context, queues []string) (events.Offers, error) {
	o := s.newOffers()
	for _, queue := range queues {
		var err error
		if id, ok := task.NodeOf(queue); ok {
			o.own = newOwnRoute(s, node.ID(id))
			_, err = o.serve(ctx, task.Lane{}, nodeConsumer(o.own.node), o.own.ensure)
		} else {
			o.queues = append(o.queues, queue)
			_, err = o.serveLane(ctx, task.Lane{Queue: queue, Priority: task.DefaultPriority})
		}
		if err != nil {
			o.Close()
			return nil, err
		}
	}
	if err := o.watchLanes(ctx); err != nil {
		o.Close()
		return nil, err
	}
	return o, nil
}

func (s *Store) newOffers() *offers {
	return &offers{
		store: s, closed: make(chan struct{}), broken: make(chan events.Break, 1), look: make(chan struct{}, 1), limits: map[string]*queueLimit{},
	}
}

func (o *offers) serveLane(ctx context.Context, l task.Lane) (*source, error) {
	return o.serve(ctx, l, laneConsumer(l), func(ctx context.Context) (bool, error) { return o.store.ensureLane(ctx, l) })
}

// serve begins to pull from a consumer; the lane of the node's own route is zero.
func (o *offers) serve(ctx context.Context, l task.Lane, name string, ensure func(context.Context) (bool, error)) (*source, error) {
	if _, err := ensure(ctx); err != nil {
		return nil, err
	}
	src := &source{lane: l}
	revive := func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		if made, err := ensure(ctx); made && err == nil { // if it fails, the puller comes again
			o.interrupted("the consumer " + name + " was lost and has been made again")
		}
	}
	// Before anything can come: what comes first may be here before newPuller has returned.
	pulled := make(chan struct{})
	take := func(m *nats.Msg) bool { <-pulled; return o.take(src, false, m) }
	p, err := newPuller(o.store.nc, LogStream, name, pullAtOnce, take, revive)
	if err != nil {
		return nil, err
	}
	src.pull = p
	if l == (task.Lane{}) {
		o.own.pull = p
	} else {
		src.ask = &asker{nc: o.store.nc, subject: p.subject,
			take: func(m *nats.Msg) bool { return o.take(src, true, m) }, bare: func(silent bool) { o.bare(src, silent) }}
	}
	close(pulled)
	o.mu.Lock()
	first := len(o.sources) == 0
	o.sources, o.pullers = append(slices.Clip(o.sources), src), append(slices.Clip(o.pullers), p)
	do := o.remeter()
	o.mu.Unlock()
	do()
	if first { // all of them share the connection
		p.mu.Lock()
		p.returned = func() {
			o.interrupted("the connection came back")
			o.lookAgain()
			o.askAgain()
		}
		p.mu.Unlock()
	}
	return src, nil
}

// Also implements [events.Offers].
func (o *offers) Also(ctx context.Context, queues []string) error {
	o.also.Lock() // one change at a time
	defer o.also.Unlock()
	var errs []error
	kept := map[string]*source{}
	for _, queue := range queues {
		src := o.more[queue]
		if src == nil {
			var err error
			if src, err = o.serveLane(ctx, task.Lane{Queue: queue, Priority: task.DefaultPriority}); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		kept[queue] = src
	}
	for queue, src := range o.more {
		if kept[queue] == nil {
			o.drop(src)
		}
	}
	o.more = kept
	return errors.Join(errs...)
}

// drop pulls no more from a source. What it brought is handed out or goes back.
func (o *offers) drop(src *source) {
	o.mu.Lock()
	o.sources = slices.DeleteFunc(slices.Clone(o.sources), func(s *source) bool { return s == src })
	o.pullers = slices.DeleteFunc(slices.Clone(o.pullers), func(p *puller) bool { return p == src.pull })
	do := o.remeter()
	o.mu.Unlock()
	do()
	o.bare(src, false) // whoever asks there asks elsewhere
	src.ask.close()
	src.pull.drain()
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

// pullAtOnce is how many offers are worth a request while others are on their
// way. Measured with 256 slots: 1 costs a tenth of the rate, above 64 the
// pipeline runs dry.
const pullAtOnce = 32

// offers hands what the pullers and askers bring to whoever waits. While nothing is
// known to be anywhere, all pullers wait for each of those. A lane that has something is asked
// alone, by its asker: who is handed two offers for one place has to return one.
type offers struct {
	store  *Store
	queues []string
	own    *ownRoute // nil without one
	once   sync.Once
	closed chan struct{}
	broken chan events.Break
	look   chan struct{}  // holds one: there may be another lane
	watch  sync.WaitGroup // ends with closed
	// stopLooking ends a look for lanes that is under way; set once, nil if none are watched.
	stopLooking func()

	also sync.Mutex
	more map[string]*source // guarded by also; those that [offers.Also] has added, by queue

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
	limits   map[string]*queueLimit // guarded by mu
}

// source is a consumer from which offers come.
type source struct {
	lane task.Lane // zero for the node's own route
	pull *puller   // waits there
	ask  *asker    // asks for what is there; nil for the own route
	// empty is whether it had nothing when that was last known, until again, when it is to be asked
	// all the same. Guarded by offers.mu.
	empty bool
	again time.Time
	// metered is whether its queue has a limit and several lanes. Guarded by offers.mu.
	metered bool
}

type waiter struct {
	got chan *events.Offer
	// at is the lane that is asked for it, nil if all pullers of in wait for it. Guarded by offers.mu.
	at *source
	in []*source
}

var waiters = sync.Pool{New: func() any { return &waiter{got: make(chan *events.Offer, 1)} }}

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
	o.waiting = append(o.waiting, w)
	o.choose(w, time.Time{}, false)
	at, in := w.at, w.in
	o.mu.Unlock()
	o.want(at, in, nil, 1)
	select {
	case offer := <-w.got:
		waiters.Put(w)
		return offer, nil
	case <-ctx.Done():
	case <-o.closed:
	}
	at, in, waits := o.leave(w)
	if !waits {
		// It came at the same moment.
		offer := <-w.got
		waiters.Put(w)
		if offer != nil {
			return offer, nil
		}
	} else {
		o.want(at, in, nil, -1)
		waiters.Put(w)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("offers: %w", nats.ErrConnectionClosed)
}

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
		if s.metered && now.Before(o.limits[s.lane.Queue].asking) {
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
		o.limits[next.Queue].asking = now.Add(2 * askSilence)
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

// leave takes a waiter out, and tells where it was and whether it still waited.
func (o *offers) leave(w *waiter) (at *source, in []*source, waits bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, other := range o.waiting {
		if other == w {
			o.waiting = append(o.waiting[:i], o.waiting[i+1:]...)
			return w.at, w.in, true
		}
	}
	return nil, nil, false
}

// all returns the pullers there are.
func (o *offers) all() []*puller {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.pullers
}

// take gives an offer to somebody who waits. If nobody waits it goes back
// to the server at once, for somebody who can start it.
func (o *offers) take(from *source, asked bool, m *nats.Msg) bool {
	mine := from.ask == nil
	if mine {
		o.own.came()
		if isProbe(m.Subject) {
			_ = o.store.nc.Publish(m.Reply, ackBody) // else it comes again, and proves that once more
			return false
		}
	}
	offer, pending := o.offer(m)
	if mine && !o.own.track(offer) {
		return true
	}
	o.mu.Lock()
	w := o.pick(from, asked)
	if !mine && o.lanes() > 1 {
		o.came(from, pending, w != nil)
	}
	if w == nil {
		o.mu.Unlock()
		if !mine || !o.own.reclaims() {
			_ = offer.Return() // else the lease runs out
		}
		return false
	}
	at, in, metered := w.at, w.in, from.metered
	o.mu.Unlock()
	// Whoever else was asked for the same place need not look for it any more.
	told := from
	wanted := at == nil && !asked || at == from && asked || mine
	if !wanted {
		told = nil
	}
	o.want(at, in, told, -1)
	if metered {
		go o.admit(w, from, offer)
	} else {
		w.got <- offer
	}
	return wanted
}

// pick takes the waiter out to whom an offer goes: one for whom it was asked, or else any.
// The caller holds o.mu.
func (o *offers) pick(from *source, asked bool) *waiter {
	n := len(o.waiting) - 1
	if n < 0 {
		return nil
	}
	at := n
	if from.ask != nil && o.lanes() > 1 {
		for i := n; i >= 0; i-- {
			if w := o.waiting[i]; asked && w.at == from || !asked && w.at == nil {
				at = i
				break
			}
		}
	}
	w := o.waiting[at]
	o.waiting[at] = o.waiting[n]
	o.waiting = o.waiting[:n]
	return w
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
	if q := o.limits[from.lane.Queue]; from.metered && q != nil {
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

// Weigh implements [events.Offers].
func (o *offers) Weigh(weights map[string]int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.turns.Weights = weights
}

// lanesEvery is how often a worker looks whether a queue of its own has got another
// lane of which it was not told.
const lanesEvery = 10 * time.Second

// firstLook is how long the first look may take before a worker begins all the same.
const firstLook = time.Second

// watchLanes serves the lanes that queues have, now and whenever there is another.
func (o *offers) watchLanes(ctx context.Context) error {
	if len(o.queues) == 0 {
		return nil
	}
	var subs []*nats.Subscription
	for _, q := range o.queues {
		sub, err := o.store.nc.Subscribe(lanesPrefix+q, func(*nats.Msg) { o.lookAgain() })
		if err != nil {
			return fmt.Errorf("watch the lanes of queue %s: %w", q, err)
		}
		subs = append(subs, sub)
	}
	stop := func() {
		for _, sub := range subs {
			_ = sub.Unsubscribe() // fails only if the connection is gone
		}
	}
	first, cancel := context.WithTimeout(ctx, firstLook)
	_ = o.findLanes(first) // who may not look serves the plain lanes; who may looks again
	cancel()
	looking, stopLooking := context.WithCancel(context.WithoutCancel(ctx))
	o.stopLooking = stopLooking
	o.watch.Go(func() {
		defer stop()
		tick := time.NewTicker(lanesEvery)
		defer tick.Stop()
		for {
			o.mu.Lock()
			metering := o.metering
			o.mu.Unlock()
			var due <-chan time.Time
			if metering {
				due = time.After(meterNudge)
			}
			select {
			case <-o.closed:
				return
			case <-due:
				o.nudge()
				continue
			case <-o.look:
			case <-tick.C:
			}
			ctx, cancel := context.WithTimeout(looking, readTimeout)
			_ = o.findLanes(ctx) // it looks again
			cancel()
		}
	})
	return nil
}

func (o *offers) lookAgain() {
	select {
	case o.look <- struct{}{}:
	default:
	}
}

// findLanes serves the lanes that are not served yet.
func (o *offers) findLanes(ctx context.Context) error {
	lanes, err := o.store.lanesOf(ctx, o.queues...)
	if err != nil {
		return err
	}
	for _, name := range o.queues {
		q, err := o.store.queue(ctx, name)
		if err != nil {
			return err
		}
		o.limit(name, q.Limit)
	}
	for _, l := range lanes {
		o.mu.Lock()
		known := slices.ContainsFunc(o.sources, func(s *source) bool { return s.lane == l })
		o.mu.Unlock()
		if known {
			continue
		}
		if _, err := o.serveLane(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

// offer reads an offer, and how many more its consumer had when it sent that.
func (o *offers) offer(m *nats.Msg) (*events.Offer, uint64) {
	r, d, ok := recordFrom(m)
	offer := &events.Offer{Lease: &lease{store: o.store, reply: m.Reply, deliveries: d.delivered}}
	if !ok {
		r = events.Record{Kind: events.KindOffer, Place: m.Subject, Raw: m.Data, Err: fmt.Errorf("the server's reply subject %q cannot be read", m.Reply)}
	}
	offer.Record, offer.Deliveries = r, d.delivered
	return offer, d.pending
}

// Close implements [events.Offers].
func (o *offers) Close() {
	o.once.Do(func() {
		close(o.closed)
		if o.stopLooking != nil {
			o.stopLooking() // the answer may have been lost with a connection
		}
		o.watch.Wait()
		o.mu.Lock()
		sources := o.sources
		o.mu.Unlock()
		for _, s := range sources {
			if s.ask != nil {
				s.ask.close()
			}
			s.pull.drain()
		}
	})
}

// lease is the ack wait of one delivery.
type lease struct {
	store      *Store
	reply      string
	deliveries int
}

var (
	ackBody      = []byte("+ACK")
	returnBody   = []byte("-NAK")
	progressBody = []byte("+WPI")
)

func (l *lease) Ack() error { return l.store.nc.Publish(l.reply, ackBody) }

// Return gives the offer back for somebody else. At first that is at once; an
// offer that is given back again and again rests longer each time, for else it
// would go round thousands of times a second until the server gives it up.
func (l *lease) Return() error {
	if l.deliveries <= freeReturns {
		return l.store.nc.Publish(l.reply, returnBody)
	}
	return l.Rest(min(time.Millisecond<<min(l.deliveries-freeReturns, 10), time.Second))
}

func (l *lease) Rest(d time.Duration) error {
	return l.store.nc.Publish(l.reply, fmt.Appendf(nil, `-NAK {"delay":%d}`, d))
}

// freeReturns is how often an offer is given back without a rest.
const freeReturns = 3

// Extend waits for the server to say that it has the word, which the client's
// own InProgress does not.
func (l *lease) Extend(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, extendTimeout)
	defer cancel()
	err := l.store.patiently(ctx, func(ctx context.Context) error {
		_, err := l.store.nc.RequestWithContext(ctx, l.reply, progressBody)
		return err
	})
	if err != nil {
		return fmt.Errorf("extend the lease: %w", err)
	}
	return nil
}

const extendTimeout = 5 * time.Second
