package jet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	"millrace/node"
	"millrace/task"
)

// Offers implements [events.Offerer]. Each queue has one durable consumer that
// all workers share; it is made when the first of them comes. A node's own route
// has one that is the node's alone.
func (s *Store) Offers(ctx context.Context, queues []string) (events.Offers, error) {
	o := &offers{store: s, closed: make(chan struct{}), broken: make(chan events.Break, 1)}
	for i, queue := range queues {
		p, err := o.pullerOf(ctx, queue)
		if err != nil {
			o.Close()
			return nil, err
		}
		if i == 0 { // all of them share the connection
			p.mu.Lock()
			p.returned = func() { o.interrupted("the connection came back") }
			p.mu.Unlock()
		}
		if o.own != nil && o.own.pull == nil {
			o.own.pull = p
		}
		o.pullers = append(o.pullers, p)
	}
	return o, nil
}

// pullerOf makes a puller of a queue, and its consumer if there is none.
func (o *offers) pullerOf(ctx context.Context, queue string) (*puller, error) {
	s := o.store
	name, ensure := consumerName(queue), func(ctx context.Context) (bool, error) { return s.ensureQueue(ctx, queue) }
	if id, ok := task.NodeOf(queue); ok {
		o.own = newOwnRoute(s, node.ID(id))
		name, ensure = nodeConsumer(o.own.node), o.own.ensure
	}
	if _, err := ensure(ctx); err != nil {
		return nil, err
	}
	revive := func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		if made, err := ensure(ctx); made && err == nil { // if it fails, the puller comes again
			o.interrupted("the consumer " + name + " was lost and has been made again")
		}
	}
	var p *puller
	made := make(chan struct{})
	take := func(m *nats.Msg) bool { <-made; return o.take(p, m) }
	var err error
	p, err = newPuller(s.nc, LogStream, name, pullAtOnce, take, revive)
	close(made)
	return p, err
}

// Also implements [events.Offers].
func (o *offers) Also(ctx context.Context, queues []string) error {
	o.also.Lock() // one change at a time
	defer o.also.Unlock()
	var errs []error
	kept := map[string]*puller{}
	for _, queue := range queues {
		p := o.more[queue]
		if p == nil {
			var err error
			if p, err = o.pullerOf(ctx, queue); err != nil {
				errs = append(errs, err)
				continue
			}
			o.mu.Lock()
			o.pullers = append(slices.Clip(o.pullers), p)
			n := len(o.waiting)
			o.mu.Unlock()
			p.want(n)
		}
		kept[queue] = p
	}
	for queue, p := range o.more {
		if kept[queue] != nil {
			continue
		}
		o.mu.Lock()
		o.pullers = slices.DeleteFunc(slices.Clone(o.pullers), func(other *puller) bool { return other == p })
		o.mu.Unlock()
		p.drain()
	}
	o.more = kept
	return errors.Join(errs...)
}

// all are the pullers there are now. The slice is never modified.
func (o *offers) all() []*puller {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.pullers
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

// ensureQueue makes the consumer of a queue if there is none, and tells whether it did.
func (s *Store) ensureQueue(ctx context.Context, queue string) (made bool, err error) {
	if err := task.ValidQueue(queue); err != nil {
		return false, err
	}
	cfg := jetstream.ConsumerConfig{
		Durable:       consumerName(queue),
		Description:   "Millrace: offers of queue " + queue + "; an ack wait is a lease",
		FilterSubject: queuePrefix + queue + ".*.*",
		AckPolicy:     jetstream.AckExplicitPolicy, AckWait: s.ackWait,
		DeliverPolicy: jetstream.DeliverAllPolicy,
		MaxDeliver:    maxDeliver, MaxAckPending: -1, MaxWaiting: 8192, MaxRequestBatch: 0,
		Metadata: map[string]string{"millrace": "1", "millrace.queue": queue},
	}
	c, err := s.js.Consumer(ctx, LogStream, cfg.Durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) && task.IsSelectorQueue(queue) {
		from, what, err := s.selectorFrom(ctx, queue)
		if err != nil {
			return false, fmt.Errorf("consumer of %s: %w", queue, err)
		}
		cfg.Description = "Millrace: offers for " + what + "; an ack wait is a lease"
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, from
	}
	if err == nil && c.CachedInfo().Config.MaxDeliver > 0 {
		return false, nil
	}
	if err == nil { // of a version that had no such bound
		cfg = c.CachedInfo().Config
		cfg.MaxDeliver = maxDeliver
		_, err = s.log.UpdateConsumer(ctx, cfg)
		return false, err
	}
	if _, err := s.log.CreateConsumer(ctx, cfg); err != nil {
		return false, fmt.Errorf("consumer of queue %s: %w", queue, err)
	}
	return true, nil
}

// offers hands what the pullers bring to whoever waits.
type offers struct {
	store  *Store
	own    *ownRoute // nil without one
	once   sync.Once
	closed chan struct{}
	broken chan events.Break

	also sync.Mutex
	more map[string]*puller // guarded by also; those that [offers.Also] has added, by queue

	mu sync.Mutex
	// pullers are replaced, never modified, so that who has read them under mu may go on
	// with them: that is how each wish reaches the same pullers as its withdrawal. Guarded by mu.
	pullers []*puller
	waiting []*waiter // guarded by mu; as many as each puller wants messages
}

type waiter struct{ got chan *events.Offer }

var waiters = sync.Pool{New: func() any { return &waiter{got: make(chan *events.Offer, 1)} }}

// Next implements [events.Offers].
func (o *offers) Next(ctx context.Context) (*events.Offer, error) {
	w := waiters.Get().(*waiter)
	o.mu.Lock()
	o.waiting = append(o.waiting, w)
	pullers := o.pullers
	o.mu.Unlock()
	want(pullers, nil, 1)
	select {
	case offer := <-w.got:
		waiters.Put(w)
		return offer, nil
	case <-ctx.Done():
	case <-o.closed:
	}
	pullers, waited := o.leave(w)
	if !waited {
		// It came at the same moment.
		offer := <-w.got
		waiters.Put(w)
		return offer, nil
	}
	want(pullers, nil, -1)
	waiters.Put(w)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("offers: %w", nats.ErrConnectionClosed)
}

// want tells all pullers but one how many more messages can be taken.
func want(pullers []*puller, but *puller, n int) {
	for _, p := range pullers {
		if p != but {
			p.want(n)
		}
	}
}

// leave returns the pullers of which nothing is wanted any more for w; false if w is
// not waiting.
func (o *offers) leave(w *waiter) ([]*puller, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, other := range o.waiting {
		if other == w {
			o.waiting = append(o.waiting[:i], o.waiting[i+1:]...)
			return o.pullers, true
		}
	}
	return nil, false
}

// take gives an offer to somebody who waits. If nobody waits it goes back
// to the server at once, for somebody who can start it.
func (o *offers) take(from *puller, m *nats.Msg) bool {
	mine := o.own != nil && from == o.own.pull
	if mine {
		o.own.came()
		if isProbe(m.Subject) {
			_ = o.store.nc.Publish(m.Reply, ackBody) // else it comes again, and proves that once more
			return false
		}
	}
	offer := o.offer(m)
	if mine && !o.own.track(offer) {
		return true
	}
	o.mu.Lock()
	var w *waiter
	if n := len(o.waiting); n > 0 {
		w, o.waiting = o.waiting[n-1], o.waiting[:n-1]
	}
	pullers := o.pullers
	o.mu.Unlock()
	if w == nil {
		if !mine || !o.own.reclaims() {
			_ = offer.Return() // else the lease runs out
		}
		return false
	}
	// The other queues were asked for the same place.
	want(pullers, from, -1)
	w.got <- offer
	return true
}

func (o *offers) offer(m *nats.Msg) *events.Offer {
	r, d, ok := recordFrom(m)
	offer := &events.Offer{Lease: &lease{nc: o.store.nc, reply: m.Reply, deliveries: d.delivered}}
	if !ok {
		r = events.Record{Kind: events.KindOffer, Place: m.Subject, Raw: m.Data, Err: fmt.Errorf("the server's reply subject %q cannot be read", m.Reply)}
	}
	offer.Record, offer.Deliveries = r, d.delivered
	return offer
}

// Close implements [events.Offers].
func (o *offers) Close() {
	o.once.Do(func() {
		close(o.closed)
		for _, p := range o.all() {
			p.drain()
		}
	})
}

// lease is the ack wait of one delivery.
type lease struct {
	nc         *nats.Conn
	reply      string
	deliveries int
}

var (
	ackBody      = []byte("+ACK")
	returnBody   = []byte("-NAK")
	progressBody = []byte("+WPI")
)

func (l *lease) Ack() error { return l.nc.Publish(l.reply, ackBody) }

// Return gives the offer back for somebody else. At first that is at once; an
// offer that is given back again and again rests longer each time, for else it
// would go round thousands of times a second until the server gives it up.
func (l *lease) Return() error {
	if l.deliveries <= freeReturns {
		return l.nc.Publish(l.reply, returnBody)
	}
	return l.Rest(min(time.Millisecond<<min(l.deliveries-freeReturns, 10), time.Second))
}

func (l *lease) Rest(d time.Duration) error {
	return l.nc.Publish(l.reply, fmt.Appendf(nil, `-NAK {"delay":%d}`, d))
}

// freeReturns is how often an offer is given back without a rest.
const freeReturns = 3

// Extend waits for the server to say that it has the word, which the client's
// own InProgress does not.
func (l *lease) Extend(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, extendTimeout)
	defer cancel()
	err := patiently(ctx, func(ctx context.Context) error {
		_, err := l.nc.RequestWithContext(ctx, l.reply, progressBody)
		return err
	})
	if err != nil {
		return fmt.Errorf("extend the lease: %w", err)
	}
	return nil
}

const extendTimeout = 5 * time.Second
