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
	"millrace/events/jet/names"
	"millrace/events/jet/pubsub"
	"millrace/events/jet/request"
	"millrace/task/node"
	"millrace/task/placement"
)

// ownRoute is the consumer that only one node pulls from. It lies in the memory of one server, for
// a replicated durable one would cost 60 ms and a raft group per node. If it is lost, the node
// makes it again where it had got to; offers that then come twice end at their claim.
type ownRoute struct {
	store *Store
	node  node.ID
	lane  placement.Lane
	idle  time.Duration // how long the server keeps the consumer while the node does not pull
	src   *source       // its source; set once, before any offer comes
	// conns counts the connections of the process; a new one counts before anything arrives on it.
	conns func() uint64

	// making holds an element while the consumer is looked up and made; taken before mu.
	making chan struct{}

	mu sync.Mutex
	// floor is a sequence up to which everything is done, as the server last reported. If the
	// consumer was cut, offers behind it may not have arrived. Guarded by mu.
	floor uint64
	known bool   // guarded by mu; whether the server has reported floor
	conn  uint64 // guarded by mu; the connection on which the consumer was last seen
	// cut tells whether offers may have been lost, with the previous connection or with an earlier
	// process. A server that has not noticed still sends offers to requests that wait there, and
	// loses them. Guarded by mu.
	cut     bool
	mark    string               // guarded by mu; identifies the current consumer
	highest uint64               // guarded by mu; the last sequence that came
	last    place                // guarded by mu; of the last message that came on the route
	heard   uint64               // guarded by mu; the connection on which that came
	open    map[uint64]*ownLease // guarded by mu; arrived, and not acknowledged
	orphans int                  // guarded by mu; how many of those have lost their consumer
	done    doneWith             // guarded by mu; finished offers that may come again
	arrived chan struct{}        // guarded by mu; closed when the next message comes
}

func newOwnRoute(s *Store, id node.ID) *ownRoute {
	conns := func() uint64 { return s.NC.Stats().Reconnects }
	lane := placement.Lane{Queue: id.Queue(), Priority: placement.DefaultPriority}
	return &ownRoute{
		store: s, node: id, lane: lane, idle: routeIdle, conns: conns, conn: conns(),
		making: make(chan struct{}, 1),
		open:   map[uint64]*ownLease{}, arrived: make(chan struct{}),
	}
}

// source returns the source of the route. Its offers belong to no queue, and no other node reads
// them.
func (r *ownRoute) source() *source {
	r.src = &source{maker: r, lane: r.lane, consumer: names.NodeConsumer(r.node), pace: pubsub.WorkerPace, ahead: ownWindow}
	return r.src
}

// routeIdle is how long the server keeps the consumer of a node that does not pull. A longer
// absence only costs making it again. So nothing is left of a node that never comes back, whether
// it was retired or died before it had registered.
const routeIdle = 24 * time.Hour

// markKey is the metadata key that distinguishes one consumer of a node from the next.
const markKey = "millrace.made"

// ensure makes the consumer if there is none or another one, or if offers may have been lost, and
// returns what it did in words, "" for nothing. A new one delivers at once what would else come again
// only when its lease expires.
func (r *ownRoute) ensure(ctx context.Context) (made string, err error) {
	if err := r.node.Validate(); err != nil {
		return "", err
	}
	select { // two concurrent makers would lose each other's leases
	case r.making <- struct{}{}:
	case <-ctx.Done():
		return "", fmt.Errorf("route of node %s: its consumer is being made: %w", r.node, ctx.Err())
	}
	defer func() { <-r.making }()
	s := r.store
	there, foreign, err := r.find(ctx)
	if err != nil || there && foreign == "" && !r.isCut() {
		return "", err
	}
	if there {
		if err := s.log.DeleteConsumer(ctx, names.NodeConsumer(r.node)); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
			return "", fmt.Errorf("route of node %s: %w", r.node, err)
		}
	}
	is, err := s.isAt(ctx, r.cameTo())
	if err != nil {
		return "", fmt.Errorf("route of node %s: %w", r.node, err)
	}
	if !is {
		r.rewind()
	}
	low := r.low()
	if low == 0 {
		records, err := s.Node(ctx, r.node, 0)
		if err != nil {
			return "", fmt.Errorf("route of node %s: %w", r.node, err)
		}
		n := events.FoldNode(r.node, records)
		low = n.Low
	}
	cfg := r.config(low)
	// Before the consumer exists, for its first offers may arrive before the answer does.
	conn := r.bereave(cfg.OptStartSeq - 1)
	_, err = s.log.CreateConsumer(ctx, cfg)
	if errors.Is(err, jetstream.ErrConsumerExists) || errors.Is(err, jetstream.ErrConsumerNameAlreadyInUse) {
		// The server that held it is gone, but the others still know its name.
		if err = s.log.DeleteConsumer(ctx, cfg.Durable); err == nil {
			_, err = s.log.CreateConsumer(ctx, cfg)
		}
	}
	if err != nil {
		return "", fmt.Errorf("route of node %s: %w", r.node, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mark = cfg.Metadata[markKey]
	r.connected()
	r.cut = r.conn != conn
	if foreign != "" {
		return "was another one (" + foreign + ") and has been made again", nil
	}
	return madeAgain, nil
}

// config is the consumer that begins at a sequence.
func (r *ownRoute) config(low uint64) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:       names.NodeConsumer(r.node),
		Description:   "Millrace: what only node " + string(r.node) + " may run, and its probes",
		FilterSubject: names.LaneFilter(r.lane),
		AckPolicy:     jetstream.AckExplicitPolicy, AckWait: r.store.ackWait,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: max(low, 1),
		MaxDeliver: maxDeliver, MaxAckPending: -1,
		MemoryStorage: true, Replicas: 1, InactiveThreshold: r.idle,
		// The mark makes each consumer distinct. Without it, creating one that only did not answer
		// in time would succeed and keep the old one, which redelivers nothing.
		Metadata: map[string]string{"millrace": "1", "millrace.node": string(r.node), markKey: nuid.Next()},
	}
}

// foreign says in words where an existing consumer is not one that the node has made; "" if it is.
func (r *ownRoute) foreign(is *jetstream.ConsumerConfig) string {
	low := r.low()
	if low == 0 { // the first look makes it again anyway
		low = is.OptStartSeq
	}
	want := r.config(low)
	d := differs(is, &want)
	return d.String()
}

// findTime is how long the consumer may take to answer. A consumer on a server that was just lost
// does not answer at first. On a starved machine nothing answers as soon. There it may take slowFind,
// or some times as long as any other answer takes: to make the consumer again costs more than that.
const (
	findTime  = time.Second
	slowFind  = 4 * time.Second
	slowTimes = 3
	slowMost  = 6 * time.Second // after that without any answer, the answers may be what is lost
)

// find tells whether the consumer exists, and where it is another one in words.
func (r *ownRoute) find(ctx context.Context) (there bool, foreign string, err error) {
	there, foreign, err = r.findWithin(ctx, findTime)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		asked := time.Now()
		soon, cancel := context.WithTimeout(ctx, slowMost)
		_, silent := r.store.Time(soon)
		cancel()
		if took := time.Since(asked); silent == nil && took > findTime/4 {
			there, foreign, err = r.findWithin(ctx, max(slowFind, slowTimes*took))
		}
	}
	switch {
	case err == nil:
		return there, foreign, nil
	case ctx.Err() == nil && (request.IsOffline(err) || errors.Is(err, jetstream.ErrConsumerNotFound) ||
		errors.Is(err, nats.ErrNoResponders) || errors.Is(err, context.DeadlineExceeded)):
		return false, "", nil
	}
	return false, "", fmt.Errorf("route of node %s: %w", r.node, err)
}

func (r *ownRoute) findWithin(ctx context.Context, patience time.Duration) (there bool, foreign string, err error) {
	soon, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := r.store.JS.Consumer(soon, names.LogStream, names.NodeConsumer(r.node))
	if err != nil {
		return false, "", err
	}
	if foreign = r.foreign(&c.CachedInfo().Config); foreign == "" {
		r.found(c.CachedInfo())
	}
	return true, foreign, nil
}

// found records that the consumer exists.
func (r *ownRoute) found(info *jetstream.ConsumerInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.known { // the first look of this process
		r.known, r.floor, r.cut = true, info.AckFloor.Stream, true
	}
	r.mark = info.Config.Metadata[markKey]
	// It seemed lost, and had only not answered.
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

// connected records whether the connection is a new one. What the server sent on the previous one
// may never arrive, so nothing behind the present floor counts as done until the consumer is made
// again. The caller holds r.mu.
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

// bereave records that the consumer is lost and that one that begins behind floor takes its place.
// Open offers then come again. Their tasks still run here, perhaps in all slots, so they are asked
// for in addition to what free slots ask for. It returns the connection on which that was.
func (r *ownRoute) bereave(floor uint64) (conn uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.connected()
	r.floor, r.known = floor, true
	r.highest = floor // what lies behind floor comes again
	more := 0
	for _, l := range r.open {
		if !l.orphan && !l.left { // what the node has given back belongs to whoever takes it next
			l.orphan, l.mark = true, r.mark
			more++
		}
	}
	if r.orphans += more; more > 0 {
		r.src.pull.Want(more)
	}
	return r.conn
}

// cameTo is the last message that came on an earlier connection, else zero: only a server that was
// away can have another log.
func (r *ownRoute) cameTo() place {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.heard == r.conns() {
		return place{}
	}
	return r.last
}

// rewind forgets what came: the log has lost its last messages, and gives their sequences to others.
func (r *ownRoute) rewind() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.orphans > 0 {
		r.src.pull.Want(-r.orphans)
	}
	for _, l := range r.open {
		l.orphan = false
	}
	clear(r.open)
	r.orphans, r.done, r.known, r.floor, r.highest, r.last = 0, doneWith{}, false, 0, 0, place{}
}

// next returns a channel that closes when the next message comes through.
func (r *ownRoute) next() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.arrived
}

// track records an offer until it is acknowledged, and says what to do with it. A probe has then
// served its purpose.
func (r *ownRoute) track(o *events.Offer) arrival {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.arrived)
	r.arrived = make(chan struct{})
	r.last, r.heard = place{o.Seq, o.Stored}, r.conns()
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

// handed records that the offer has left the stock.
func (l *ownLease) handed() {
	l.route.mu.Lock()
	defer l.route.mu.Unlock()
	l.stocked = false
}

// ownLease is a lease that survives the loss of its consumer.
type ownLease struct {
	route   *ownRoute
	seq     uint64
	now     events.Lease // guarded by route.mu
	stocked bool         // guarded by route.mu; the node has only read it ahead
	orphan  bool         // guarded by route.mu; its consumer was lost
	left    bool         // guarded by route.mu; the node has given the offer back
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
		r.src.pull.Want(-1) // what comes again ends at its claim
	}
	return now.Ack()
}

func (l *ownLease) Return() error { return l.leave(events.Lease.Return) }

func (l *ownLease) Rest(d time.Duration) error {
	return l.leave(func(now events.Lease) error { return now.Rest(d) })
}

// leave gives the offer back, also to a consumer that was lost, for it may only have seemed so. It
// stays open until it comes again and is done with: else the node would go on behind it.
func (l *ownLease) leave(say func(events.Lease) error) error {
	r := l.route
	r.mu.Lock()
	now, orphan := l.now, l.orphan
	l.left, l.stocked, l.orphan = true, false, false
	if orphan {
		r.orphans--
	}
	r.mu.Unlock()
	if orphan {
		r.src.pull.Want(-1)
	}
	return say(now)
}

// errOrphan: at present no server counts the lease.
var errOrphan = errors.New("extend the lease: its consumer was lost and made again, and has not offered it yet")

// Extend fails between the loss of the consumer and the redelivery of the offer: the new consumer
// also answers for offers that it does not know, which would pass for a confirmation.
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

// low is a sequence below which everything is done; 0 if unknown.
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

const probeAgain = 250 * time.Millisecond // after that another probe is placed

// Prove implements [events.Offers].
func (o *offers) Prove(ctx context.Context) error {
	r := o.own
	if r == nil {
		return errors.New("prove: no route of a node is among the queues")
	}
	// Any message that comes through will do, for it took the same way: if the node has no slot for
	// it, it goes back, and nothing lies ahead of it that could hold up a probe.
	arrived := r.next()
	r.src.pull.Want(1)
	defer r.src.pull.Want(-1)
	var last error
	for {
		last = o.keepRoute(ctx)
		if errors.Is(last, context.Canceled) && ctx.Err() == nil {
			continue // the connection has just come back
		}
		if last != nil {
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
			return o.proven(ctx)
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

// keepRoute makes the consumer of the own route again if it is lost. If its server is gone, that
// takes as long as the other servers need to notice.
func (o *offers) keepRoute(ctx context.Context) error {
	ctx, cancel := o.store.Within(ctx, 5*findTime)
	defer cancel()
	made, err := o.own.ensure(ctx)
	if made != "" {
		o.own.src.pull.Renew()
	}
	return err
}

// probe places a probe on the own route.
func (o *offers) probe(ctx context.Context) error {
	body, err := json.Marshal(map[string]any{"node": o.own.node, "at": o.store.Now().UTC()})
	if err != nil {
		return err
	}
	m := &nats.Msg{Subject: names.ProbeSubject(o.own.node), Data: body, Header: nats.Header{events.TypeHeader: {"node.probe"}}}
	if _, err := o.store.pub.Publish(ctx, m); err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	return nil
}

// unmute asks consumers that did not answer a moment ago again, without waiting for their time: the
// server is there.
func (o *offers) unmute() {
	for _, s := range o.all() {
		s.pull.Unmute()
	}
}

// DropNode removes what the server holds for a node besides its facts and offers: the consumer of
// its own route and its heartbeat. If it has sent a heartbeat since it was retired, it has begun anew,
// and nothing is removed. It is idempotent.
func (s *Store) DropNode(ctx context.Context, id node.ID, retired time.Time) error {
	if err := id.Validate(); err != nil {
		return err
	}
	seq, another, err := s.BeatsAnew(ctx, id, retired)
	if err != nil || another {
		return err
	}
	if e := s.log.DeleteConsumer(ctx, names.NodeConsumer(id)); !errors.Is(e, jetstream.ErrConsumerNotFound) {
		err = e
	}
	if err == nil {
		err = s.ForgetUntil(ctx, id, seq)
	}
	if err != nil {
		return fmt.Errorf("remove the route of node %s: %w", id, err)
	}
	return nil
}

// WatchNode calls changed whenever something may have happened to a node, until stop is called; a
// worker hears of its own node through [Store.OnHint]. Messages can be lost: also read the log now
// and then.
func (s *Store) WatchNode(id node.ID, changed func()) (stop func(), err error) {
	return s.Listen(names.NodePrefix+string(id), "watch node "+string(id), func(*nats.Msg) { changed() })
}

// Severed implements [events.Doubtful].
func (l *ownLease) Severed() bool {
	now, ok := l.get().(events.Doubtful)
	return ok && now.Severed()
}

// Token implements [events.Lasting].
func (l *ownLease) Token() string {
	if now, ok := l.get().(events.Lasting); ok {
		return now.Token()
	}
	return ""
}
