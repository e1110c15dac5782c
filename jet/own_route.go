package jet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"millrace/events"
	"millrace/jet/link"
	"millrace/jet/pull"
	"millrace/jet/wire"
	"millrace/node"
	"millrace/task/where"
)

// ownRoute is the consumer from which a node alone pulls. It lies in the memory of
// one server, for a replicated durable one would cost 60 ms and a raft group for
// each node. If it is lost it is made again from where the node had got to, and what then
// comes twice dies at its claim.
type ownRoute struct {
	store *Store
	node  node.ID
	lane  where.Lane
	idle  time.Duration // how long the server keeps the consumer while nobody pulls
	src   *source       // where it comes from; set once, before anything does
	// conns counts the connections that the process has had; a new one counts before anything comes on it.
	conns func() uint64

	making sync.Mutex // held while the consumer is looked for and made; taken before mu

	mu sync.Mutex
	// floor is a sequence up to which all is done with, as the server last said; behind it may be
	// offers that did not come, if the consumer was cut. Guarded by mu.
	floor uint64
	known bool   // guarded by mu; whether the server has said so
	conn  uint64 // guarded by mu; which connection of the process it was last seen on
	// cut is whether offers may have been lost, with the connection before or with an earlier process.
	// A server that has not noticed goes on to lose them, to requests that still wait there. Guarded by mu.
	cut     bool
	mark    string               // guarded by mu; sets the consumer that is there apart
	highest uint64               // guarded by mu; the last sequence that came
	open    map[uint64]*ownLease // guarded by mu; came, and is not acknowledged
	orphans int                  // guarded by mu; of those, the ones whose consumer was lost
	done    doneWith             // guarded by mu; what may come again
	arrived chan struct{}        // guarded by mu; closed when the next message comes
}

func newOwnRoute(s *Store, id node.ID) *ownRoute {
	conns := func() uint64 { return s.NC.Stats().Reconnects }
	lane := where.Lane{Queue: id.Queue(), Priority: where.DefaultPriority}
	return &ownRoute{
		store: s, node: id, lane: lane, idle: routeIdle, conns: conns, conn: conns(),
		open: map[uint64]*ownLease{}, arrived: make(chan struct{}),
	}
}

// source is where the offers of the route come from. They belong to no queue, and nobody else reads them.
func (r *ownRoute) source() *source {
	r.src = &source{maker: r, lane: r.lane, consumer: wire.NodeConsumer(r.node), pace: pull.WorkerPace, ahead: ownWindow}
	return r.src
}

// routeIdle is how long the server keeps the consumer of a node that does not
// pull. Longer absences only cost making it again. So nothing is left of a node that never comes back, whether
// it was retired or died before it had registered.
const routeIdle = 24 * time.Hour

// markKey names what sets one consumer of a node apart from the next.
const markKey = "millrace.made"

// ensure makes the consumer if there is none, or if offers may have been lost, and tells whether it did.
// One that is made again offers at once what would come again only when its lease runs out.
func (r *ownRoute) ensure(ctx context.Context) (made bool, err error) {
	if err := r.node.Validate(); err != nil {
		return false, err
	}
	r.making.Lock() // two that make it at once would lose each other's leases
	defer r.making.Unlock()
	s := r.store
	there, err := r.find(ctx)
	if err != nil || there && !r.isCut() {
		return false, err
	}
	if there {
		if err := s.log.DeleteConsumer(ctx, wire.NodeConsumer(r.node)); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
			return false, fmt.Errorf("route of node %s: %w", r.node, err)
		}
	}
	low := r.low()
	if low == 0 {
		records, err := s.Node(ctx, r.node, 0)
		if err != nil {
			return false, fmt.Errorf("route of node %s: %w", r.node, err)
		}
		n := events.FoldNode(r.node, records)
		low = n.Low
	}
	cfg := jetstream.ConsumerConfig{
		Durable:       wire.NodeConsumer(r.node),
		Description:   "Millrace: what only node " + string(r.node) + " may run, and its probes",
		FilterSubject: wire.LaneFilter(r.lane),
		AckPolicy:     jetstream.AckExplicitPolicy, AckWait: s.ackWait,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: max(low, 1),
		MaxDeliver: maxDeliver, MaxAckPending: -1,
		MemoryStorage: true, Replicas: 1, InactiveThreshold: r.idle,
		// The mark sets each of them apart. Without it, to make one that only did not
		// answer in time would succeed and keep the old, which offers nothing again.
		Metadata: map[string]string{"millrace": "1", "millrace.node": string(r.node), markKey: nuid.Next()},
	}
	// Before it exists, for what it offers may be here before the answer is.
	conn := r.bereave(cfg.OptStartSeq - 1)
	_, err = s.log.CreateConsumer(ctx, cfg)
	if errors.Is(err, jetstream.ErrConsumerExists) || errors.Is(err, jetstream.ErrConsumerNameAlreadyInUse) {
		// The server that held it is gone, and the others still know its name.
		if err = s.log.DeleteConsumer(ctx, cfg.Durable); err == nil {
			_, err = s.log.CreateConsumer(ctx, cfg)
		}
	}
	if err != nil {
		return false, fmt.Errorf("route of node %s: %w", r.node, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mark = cfg.Metadata[markKey]
	r.connected()
	r.cut = r.conn != conn
	return true, nil
}

// findTime is how long the consumer may take to answer. One that was on a server which
// is lost does not at first.
const findTime = time.Second

// find tells whether the consumer is there.
func (r *ownRoute) find(ctx context.Context) (there bool, err error) {
	soon, cancel := context.WithTimeout(ctx, findTime)
	defer cancel()
	c, err := r.store.JS.Consumer(soon, wire.LogStream, wire.NodeConsumer(r.node))
	switch {
	case err == nil:
		r.found(c.CachedInfo())
		return true, nil
	case ctx.Err() == nil && (link.IsOffline(err) || errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, nats.ErrNoResponders) || errors.Is(err, context.DeadlineExceeded)):
		return false, nil
	}
	return false, fmt.Errorf("route of node %s: %w", r.node, err)
}

// found notes that the consumer is there.
func (r *ownRoute) found(info *jetstream.ConsumerInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.known { // the first look of this process
		r.known, r.floor, r.cut = true, info.AckFloor.Stream, true
	}
	r.mark = info.Config.Metadata[markKey]
	// It was taken for lost, and had only not answered.
	kept := 0
	for _, l := range r.open {
		if l.orphan && l.mark == r.mark {
			l.orphan = false
			kept++
		}
	}
	if r.orphans -= kept; kept > 0 {
		r.src.pull.Want(-kept)
	}
}

// isCut tells whether offers may have been lost.
func (r *ownRoute) isCut() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.connected()
	return r.cut
}

// connected notes whether the connection is another one than before. What the server handed
// to the one before may never come, so that nothing behind the present mark counts as
// done with until the consumer was made again. The caller holds r.mu.
func (r *ownRoute) connected() {
	now := r.conns()
	if now == r.conn {
		return
	}
	if r.known {
		r.floor = r.below() - 1
	}
	r.conn, r.cut = now, true
}

// bereave notes that the consumer is lost and that one which begins behind floor takes its
// place. What is open comes again then. Somebody runs it here, perhaps in all places
// that there are, so it is asked for beside what they ask for. It returns on which connection that was.
func (r *ownRoute) bereave(floor uint64) (conn uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.connected()
	r.floor, r.known = floor, true
	r.highest = floor // what lies behind it comes again
	more := len(r.open) - r.orphans
	for _, l := range r.open {
		if !l.orphan {
			l.orphan, l.mark = true, r.mark
		}
	}
	r.orphans = len(r.open)
	if more > 0 {
		r.src.pull.Want(more)
	}
	return r.conn
}

// next is closed when the next message comes through.
func (r *ownRoute) next() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.arrived
}

// track notes an offer until it is acknowledged, and says what it is. A probe has done all that it is for.
func (r *ownRoute) track(o *events.Offer) arrival {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.arrived)
	r.arrived = make(chan struct{})
	if o.Kind == events.KindProbe {
		return stale
	}
	r.connected()
	r.highest = max(r.highest, o.Seq)
	if r.done.has(o.Seq) {
		return stale
	}
	l := r.open[o.Seq]
	switch {
	case l != nil && l.orphan:
		l.now, l.orphan = o.Lease, false
		r.orphans--
		return reclaimed
	case l != nil && l.stocked:
		l.now = o.Lease
		return renewed
	}
	l = &ownLease{route: r, seq: o.Seq, now: o.Lease, stocked: true}
	r.open[o.Seq] = l
	o.Lease = l
	return fresh
}

// handed notes that the offer is not in stock any more.
func (l *ownLease) handed() {
	l.route.mu.Lock()
	defer l.route.mu.Unlock()
	l.stocked = false
}

// reclaims tells whether leases are to be had back. Until then what nobody
// has a place for is kept, or it would come again and again before them.
func (r *ownRoute) reclaims() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.orphans > 0
}

// ownLease is a lease that survives the loss of its consumer.
type ownLease struct {
	route   *ownRoute
	seq     uint64
	now     events.Lease // guarded by route.mu
	stocked bool         // guarded by route.mu; the node has read it ahead
	orphan  bool         // guarded by route.mu; its consumer was lost
	mark    string       // guarded by route.mu; of that consumer
}

func (l *ownLease) get() events.Lease {
	l.route.mu.Lock()
	defer l.route.mu.Unlock()
	return l.now
}

func (l *ownLease) Ack() error {
	r := l.route
	r.mu.Lock()
	if r.open[l.seq] == l {
		delete(r.open, l.seq)
		r.done.add(l.seq, r.below())
	}
	orphan, now := l.orphan, l.now
	if orphan {
		l.orphan = false
		r.orphans--
	}
	r.mu.Unlock()
	if orphan {
		r.src.pull.Want(-1) // what comes again dies at its claim
	}
	return now.Ack()
}

func (l *ownLease) Return() error { return l.get().Return() }

func (l *ownLease) Rest(d time.Duration) error { return l.get().Rest(d) }

// errOrphan says that no server counts a lease at present.
var errOrphan = errors.New("extend the lease: its consumer was lost and made again, and has not offered it yet")

// Extend fails between the loss of the consumer and the offer coming again: the new
// consumer answers to what it knows nothing of, and that would pass for a confirmation.
func (l *ownLease) Extend(ctx context.Context) error {
	l.route.mu.Lock()
	now, orphan := l.now, l.orphan
	l.route.mu.Unlock()
	if orphan {
		return errOrphan
	}
	return now.Extend(ctx)
}

func (l *ownLease) Prolong() error { return l.get().Prolong() }

// low is a sequence below which all is done with; 0 if that is not known.
func (r *ownRoute) low() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.connected()
	return r.below()
}

// below is low; the caller holds r.mu.
func (r *ownRoute) below() uint64 {
	if !r.known {
		return 0
	}
	low := r.floor + 1
	if r.cut {
		return low
	}
	low = max(low, r.highest+1)
	for seq := range r.open {
		low = min(low, seq)
	}
	return low
}

// Low implements [events.Offers].
func (o *offers) Low() uint64 {
	if o.own == nil {
		return 0
	}
	return o.own.low()
}

const probeAgain = 250 * time.Millisecond // after that the probe is put there once more

// Prove implements [events.Offers].
func (o *offers) Prove(ctx context.Context) error {
	r := o.own
	if r == nil {
		return errors.New("prove: no route of a node is among the queues")
	}
	// Whatever comes through does, for it took the same way: if the node has no
	// place for it, it goes back, and there is nothing behind which a probe could be stuck.
	arrived := r.next()
	r.src.pull.Want(1)
	defer r.src.pull.Want(-1)
	var last error
	for {
		if last = o.keepRoute(ctx); last != nil {
			last = fmt.Errorf("keep its consumer: %w", last)
		}
		try, cancel := context.WithTimeout(ctx, probeAgain)
		if last == nil {
			last = o.probe(try)
		}
		select {
		case <-arrived:
			cancel()
			o.unmute()
			return nil
		case <-o.closed:
			cancel()
			return fmt.Errorf("prove: %w", nats.ErrConnectionClosed)
		case <-try.Done():
		}
		cancel()
		if ctx.Err() != nil {
			return errors.Join(fmt.Errorf("nothing came through on the route of node %s: %w", r.node, ctx.Err()), last)
		}
		r.src.pull.Renew() // the request may have been lost
	}
}

// keepRoute makes the consumer of the own route again if it is lost. On a server that is
// not there any more that takes as long as the others need to see it.
func (o *offers) keepRoute(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*findTime)
	defer cancel()
	made, err := o.own.ensure(ctx)
	if made {
		o.own.src.pull.Renew()
	}
	return err
}

// probe puts something on the own route.
func (o *offers) probe(ctx context.Context) error {
	body, err := json.Marshal(map[string]any{"node": o.own.node, "at": o.store.Now().UTC()})
	if err != nil {
		return err
	}
	m := &nats.Msg{Subject: wire.ProbeSubject(o.own.node), Data: body, Header: nats.Header{events.TypeHeader: {"node.probe"}}}
	if _, err := o.store.pub.Publish(ctx, m); err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	return nil
}

// unmute asks those consumers again that did not answer a moment ago, without
// waiting for their time: the server is there.
func (o *offers) unmute() {
	for _, s := range o.all() {
		s.pull.Unmute()
	}
}

// DropNode removes what the server holds for a node besides its facts and offers:
// the consumers of its own route and its heartbeat. To do it again is harmless.
func (s *Store) DropNode(ctx context.Context, id node.ID) error {
	if err := id.Validate(); err != nil {
		return err
	}
	var err error
	if e := s.log.DeleteConsumer(ctx, wire.NodeConsumer(id)); !errors.Is(e, jetstream.ErrConsumerNotFound) {
		err = e
	}
	if err == nil {
		err = s.Forget(ctx, id)
	}
	if err != nil {
		return fmt.Errorf("remove the route of node %s: %w", id, err)
	}
	return nil
}

// WatchNode calls changed whenever something may have happened to a node, until stop
// is called; of its own, a worker hears by [Store.OnHint]. Words can be lost; look at the log now and then as well.
func (s *Store) WatchNode(id node.ID, changed func()) (stop func(), err error) {
	sub, err := s.NC.Subscribe(wire.NodePrefix+string(id), func(*nats.Msg) { changed() })
	if err != nil {
		return nil, fmt.Errorf("watch node %s: %w", id, err)
	}
	return func() { _ = sub.Unsubscribe() }, nil // fails only if the connection is gone
}
