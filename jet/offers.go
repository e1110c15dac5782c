package jet

import (
	"context"
	"fmt"
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
		name, ensure := consumerName(queue), func(ctx context.Context) (bool, error) { return s.ensureQueue(ctx, queue) }
		if id, ok := task.NodeOf(queue); ok {
			o.own = newOwnRoute(s, node.ID(id))
			name, ensure = nodeConsumer(o.own.node), o.own.ensure
		}
		if _, err := ensure(ctx); err != nil {
			o.Close()
			return nil, err
		}
		revive := func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, readTimeout)
			defer cancel()
			if made, err := ensure(ctx); made && err == nil { // if it fails, the puller comes again
				o.interrupted("the consumer " + name + " was lost and has been made again")
			}
		}
		take := func(m *nats.Msg) bool { return o.take(i, m) }
		p, err := newPuller(s.nc, LogStream, name, pullAtOnce, take, revive)
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
	for _, p := range o.pullers {
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
	store   *Store
	pullers []*puller
	own     *ownRoute // nil without one
	once    sync.Once
	closed  chan struct{}
	broken  chan events.Break

	mu      sync.Mutex
	waiting []*waiter // guarded by mu; as many as each puller wants messages
}

type waiter struct{ got chan *events.Offer }

var waiters = sync.Pool{New: func() any { return &waiter{got: make(chan *events.Offer, 1)} }}

// Next implements [events.Offers].
func (o *offers) Next(ctx context.Context) (*events.Offer, error) {
	w := waiters.Get().(*waiter)
	o.mu.Lock()
	o.waiting = append(o.waiting, w)
	o.mu.Unlock()
	o.want(1)
	select {
	case offer := <-w.got:
		waiters.Put(w)
		return offer, nil
	case <-ctx.Done():
	case <-o.closed:
	}
	if !o.leave(w) {
		// It came at the same moment.
		offer := <-w.got
		waiters.Put(w)
		return offer, nil
	}
	o.want(-1)
	waiters.Put(w)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("offers: %w", nats.ErrConnectionClosed)
}

func (o *offers) want(n int) {
	for _, p := range o.pullers {
		p.want(n)
	}
}

func (o *offers) leave(w *waiter) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, other := range o.waiting {
		if other == w {
			o.waiting = append(o.waiting[:i], o.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// take gives an offer to somebody who waits. If nobody waits it goes back
// to the server at once, for somebody who can start it.
func (o *offers) take(from int, m *nats.Msg) bool {
	mine := o.own != nil && o.pullers[from] == o.own.pull
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
	o.mu.Unlock()
	if w == nil {
		if !mine || !o.own.reclaims() {
			_ = offer.Return() // else the lease runs out
		}
		return false
	}
	// The other queues were asked for the same place.
	for i, p := range o.pullers {
		if i != from {
			p.want(-1)
		}
	}
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
		for _, p := range o.pullers {
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
