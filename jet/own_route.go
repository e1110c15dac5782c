package jet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"millrace/events"
	"millrace/node"
	"millrace/task"
)

// ownRoute is the consumer of a lane from which a node alone pulls. It lies in the memory of
// one server, for a replicated durable one would cost 60 ms and a raft group for
// each node. If it is lost it is made again from where the node had got to, and what then
// comes twice dies at its claim.
type ownRoute struct {
	store *Store
	node  node.ID
	lane  task.Lane
	from  uint64  // where a special lane begins; 0 for the plain one, which the node's facts tell
	pull  *puller // set once, before anything comes

	making sync.Mutex // held while the consumer is looked for and made; taken before mu

	mu sync.Mutex
	// floor is a sequence up to which all is done with, as the server last said;
	// behind it may be offers that an earlier process pulled and did not settle,
	// unless complete. Guarded by mu.
	floor    uint64
	complete bool
	mark     string               // guarded by mu; sets the consumer that is there apart
	highest  uint64               // guarded by mu; the last sequence that came
	open     map[uint64]*ownLease // guarded by mu; came, and is not acknowledged
	orphans  int                  // guarded by mu; of those, the ones whose consumer was lost
	arrived  chan struct{}        // guarded by mu; closed when the next message comes
}

func newOwnRoute(s *Store, id node.ID, l task.Lane, from uint64) *ownRoute {
	return &ownRoute{store: s, node: id, lane: l, from: from, open: map[uint64]*ownLease{}, arrived: make(chan struct{})}
}

// routeIdle is how long the server keeps the consumer of a node that does not
// pull. Longer absences only cost making it again.
const routeIdle = 24 * time.Hour

// markKey names what sets one consumer of a node apart from the next.
const markKey = "millrace.made"

// ensure makes the consumer if there is none, and tells whether it did.
func (r *ownRoute) ensure(ctx context.Context) (made bool, err error) {
	if err := r.node.Validate(); err != nil {
		return false, err
	}
	r.making.Lock() // two that make it at once would lose each other's leases
	defer r.making.Unlock()
	s := r.store
	there, err := r.find(ctx)
	if err != nil || there {
		return false, err
	}
	low := cmp.Or(r.low(), r.from)
	if low == 0 {
		records, err := s.Node(ctx, r.node)
		if err != nil {
			return false, fmt.Errorf("route of node %s: %w", r.node, err)
		}
		n := events.FoldNode(r.node, records)
		low = n.Low
	}
	cfg := jetstream.ConsumerConfig{
		Durable:       laneConsumer(r.lane),
		Description:   "Millrace: what only node " + string(r.node) + " may run, and its probes",
		FilterSubject: laneFilter(r.lane),
		AckPolicy:     jetstream.AckExplicitPolicy, AckWait: s.ackWait,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: max(low, 1),
		MaxDeliver: maxDeliver, MaxAckPending: -1,
		MemoryStorage: true, Replicas: 1, InactiveThreshold: routeIdle,
		// The mark sets each of them apart. Without it, to make one that only did not
		// answer in time would succeed and keep the old, which offers nothing again.
		Metadata: map[string]string{"millrace": "1", "millrace.node": string(r.node), markKey: nuid.Next()},
	}
	// Before it exists, for what it offers may be here before the answer is.
	r.bereave(cfg.OptStartSeq - 1)
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
	return true, nil
}

// findTime is how long the consumer may take to answer. One that was on a server which
// is lost does not at first.
const findTime = time.Second

// find tells whether the consumer is there.
func (r *ownRoute) find(ctx context.Context) (bool, error) {
	soon, cancel := context.WithTimeout(ctx, findTime)
	defer cancel()
	c, err := r.store.js.Consumer(soon, LogStream, laneConsumer(r.lane))
	switch {
	case err == nil:
		r.found(c.CachedInfo())
		return true, nil
	case ctx.Err() == nil && (isOffline(err) || errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, nats.ErrNoResponders) || errors.Is(err, context.DeadlineExceeded)):
		return false, nil
	}
	return false, fmt.Errorf("route of node %s: %w", r.node, err)
}

// found notes that the consumer is there.
func (r *ownRoute) found(info *jetstream.ConsumerInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.floor == 0 { // the first look of this process
		r.floor, r.complete = info.AckFloor.Stream, info.NumAckPending == 0
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
		r.pull.want(-kept)
	}
}

// bereave notes that the consumer is lost and that one which begins behind floor takes its
// place. What is open comes again then. Somebody runs it here, perhaps in all places
// that there are, so it is asked for beside what they ask for.
func (r *ownRoute) bereave(floor uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.floor, r.complete = floor, true
	more := len(r.open) - r.orphans
	for _, l := range r.open {
		if !l.orphan {
			l.orphan, l.mark = true, r.mark
		}
	}
	r.orphans = len(r.open)
	if more > 0 {
		r.pull.want(more)
	}
}

// came notes that something has come through.
func (r *ownRoute) came() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.arrived)
	r.arrived = make(chan struct{})
}

// next is closed when the next message comes through.
func (r *ownRoute) next() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.arrived
}

// track notes an offer until it is acknowledged. It returns false if somebody
// here has it already and lost only the lease, which goes on then.
func (r *ownRoute) track(o *events.Offer) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.highest = max(r.highest, o.Seq)
	if l := r.open[o.Seq]; l != nil && l.orphan {
		l.now, l.orphan = o.Lease, false
		r.orphans--
		return false
	}
	l := &ownLease{route: r, seq: o.Seq, now: o.Lease}
	r.open[o.Seq] = l
	o.Lease = l
	return true
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
	route  *ownRoute
	seq    uint64
	now    events.Lease // guarded by route.mu
	orphan bool         // guarded by route.mu; its consumer was lost
	mark   string       // guarded by route.mu; of that consumer
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
	}
	orphan, now := l.orphan, l.now
	if orphan {
		l.orphan = false
		r.orphans--
	}
	r.mu.Unlock()
	if orphan {
		r.pull.want(-1) // what comes again dies at its claim
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

// empty tells whether the server has nothing in the lane that it could still hand out: nothing waits,
// and nothing is leased.
func (r *ownRoute) empty(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, findTime)
	defer cancel()
	c, err := r.store.js.Consumer(ctx, LogStream, laneConsumer(r.lane))
	return err == nil && c.CachedInfo().NumPending == 0 && c.CachedInfo().NumAckPending == 0
}

// low is a sequence below which all is done with; 0 if that is not known.
func (r *ownRoute) low() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.floor == 0 && !r.complete {
		return 0
	}
	low := r.floor + 1
	if !r.complete {
		return low
	}
	low = max(low, r.highest+1)
	for seq := range r.open {
		low = min(low, seq)
	}
	return low
}

// Low implements [events.Offers].
func (o *offers) Low() (plain, lanes uint64) {
	if o.own == nil {
		return 0, 0
	}
	return o.own.low(), o.special.low()
}

// Times of a proof.
const (
	probeTTL   = 10 * time.Second       // then the server forgets it
	probeAgain = 250 * time.Millisecond // after that it is put there once more
)

// Prove implements [events.Offers].
func (o *offers) Prove(ctx context.Context) error {
	r := o.own
	if r == nil {
		return errors.New("prove: no route of a node is among the queues")
	}
	// Whatever comes through does, for it took the same way: if the node has no
	// place for it, it goes back, and there is nothing behind which a probe could be stuck.
	arrived := r.next()
	r.pull.want(1)
	defer r.pull.want(-1)
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
		r.pull.renew() // the request may have been lost
	}
}

// keepRoute makes the consumer of the own route again if it is lost. On a server that is
// not there any more that takes as long as the others need to see it.
func (o *offers) keepRoute(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*findTime)
	defer cancel()
	made, err := o.own.ensure(ctx)
	if made {
		o.own.pull.renew()
	}
	return err
}

// probe puts something on the own route.
func (o *offers) probe(ctx context.Context) error {
	body, err := json.Marshal(map[string]any{"node": o.own.node, "at": o.store.Now().UTC()})
	if err != nil {
		return err
	}
	m := &nats.Msg{Subject: probeSubject(o.own.node), Data: body, Header: nats.Header{events.TypeHeader: {"node.probe"}, "Nats-TTL": {probeTTL.String()}}}
	if _, err := o.store.pub.publish(ctx, m); err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	return nil
}

// unmute asks those consumers again that did not answer a moment ago, without
// waiting for their time: the server is there.
func (o *offers) unmute() {
	for _, p := range o.all() {
		p.mu.Lock()
		mute := p.mute
		p.mu.Unlock()
		if mute {
			p.renew()
		}
	}
}

// NodeRoutes lists the nodes that have consumers of their own.
func (s *Store) NodeRoutes(ctx context.Context) ([]node.ID, error) {
	var ids []node.ID
	names := s.log.ConsumerNames(ctx)
	for name := range names.Name() {
		id, ok := strings.CutPrefix(strings.TrimSuffix(name, laneSign), nodeConsumerPrefix)
		if l, special := laneOf(name); special {
			id, ok = task.NodeOf(l.Queue)
		}
		if ok && !slices.Contains(ids, node.ID(id)) {
			ids = append(ids, node.ID(id))
		}
	}
	if err := names.Err(); err != nil {
		return ids, fmt.Errorf("list the routes of nodes: %w", err)
	}
	return ids, nil
}

// DropNode removes what the server holds for a node besides its facts and offers:
// the consumers of its own route, its probe and its heartbeat. To do it again is harmless.
func (s *Store) DropNode(ctx context.Context, id node.ID) error {
	if err := id.Validate(); err != nil {
		return err
	}
	var err error
	for _, name := range []string{nodeConsumer(id), ownLanesConsumer(id)} {
		if e := s.log.DeleteConsumer(ctx, name); !errors.Is(e, jetstream.ErrConsumerNotFound) {
			err = errors.Join(err, e)
		}
	}
	if err == nil {
		err = s.log.Purge(ctx, jetstream.WithPurgeSubject(probeSubject(id)))
	}
	if err == nil {
		err = s.Forget(ctx, id)
	}
	if err == nil { // last, for who may not list consumers can do the rest
		err = s.deleteLanes(ctx, id.Queue())
	}
	if err != nil {
		return fmt.Errorf("remove the route of node %s: %w", id, err)
	}
	return nil
}

// WatchNode calls changed whenever something may have happened to a node, until
// stop is called. Words can be lost; look at the log now and then as well.
func (s *Store) WatchNode(id node.ID, changed func()) (stop func(), err error) {
	sub, err := s.nc.Subscribe(nodePrefix+string(id), func(*nats.Msg) { changed() })
	if err != nil {
		return nil, fmt.Errorf("watch node %s: %w", id, err)
	}
	return func() { _ = sub.Unsubscribe() }, nil // fails only if the connection is gone
}
