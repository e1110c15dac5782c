package jet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	"millrace/events/jet/embed"
	"millrace/events/jet/names"
	"millrace/events/jet/natstest"
	"millrace/events/jet/pubsub"
	"millrace/events/jet/request"
	"millrace/events/jet/streams"
	"millrace/internal/testkit"
	"millrace/task"
	"millrace/task/node"
	"millrace/task/placement"
)

// aim places the birth of a task on a node's own route.
func aim(t testing.TB, s *Store, id node.ID) uint64 {
	t.Helper()
	work := testWork("default")
	work.Route = placement.NodeRoute(string(id), placement.DefaultPriority)
	return must(s.Place(within(t), newFact(newTask(), task.Submitted{Work: work})))(t)
}

func prove(t testing.TB, o events.Offers) {
	t.Helper()
	if err := o.Prove(within(t)); err != nil {
		t.Fatal(err)
	}
}

func settle(t testing.TB, o *events.Offer) {
	t.Helper()
	if err := o.Ack(); err != nil {
		t.Fatal(err)
	}
}

// dropRoute takes a node's consumer away, as the loss of the server's memory does.
func dropRoute(t testing.TB, s *Store, id node.ID) {
	t.Helper()
	if err := s.log.DeleteConsumer(within(t), names.NodeConsumer(id)); err != nil {
		t.Fatal(err)
	}
}

// When the consumer of a node is lost, the node makes it again where it had got to; leases in use
// go on, even without a free slot, and nothing is missing.
func TestOwnRouteIsMadeAgain(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{AckWait: 30 * time.Second})
	o := offersOf(t, s, "default", "@n1")
	prove(t, o)
	var seqs []uint64
	for range 5 {
		seqs = append(seqs, aim(t, s, "n1"))
	}
	var held []*events.Offer
	for range 3 {
		held = append(held, next(t, o))
	}
	for _, i := range []int{0, 2} {
		if err := held[i].Ack(); err != nil {
			t.Fatal(err)
		}
	}
	if low := o.Low(); low != seqs[1] {
		t.Errorf("all below %d is done with, want below %d", low, seqs[1])
	}
	testkit.Eventually(t, "the server knows what is settled", func() bool {
		// One that runs, and two that the node has read ahead.
		return must(s.JS.Consumer(within(t), names.LogStream, names.NodeConsumer("n1")))(t).CachedInfo().NumAckPending == 3
	})
	dropRoute(t, s, "n1")
	prove(t, o)
	info := must(s.JS.Consumer(within(t), names.LogStream, names.NodeConsumer("n1")))(t).CachedInfo()
	if c := info.Config; c.OptStartSeq != seqs[1] || !c.MemoryStorage || c.Replicas != 1 || c.Description == "" || c.Metadata["millrace.node"] != "n1" {
		t.Errorf("it was made again as %+v, want from %d, in memory, on one server, described", c, seqs[1])
	}
	// No slot waits for an offer, and still the lease in use goes on.
	testkit.Eventually(t, "the lease goes on", func() bool { return held[1].Extend(within(t)) == nil })
	if held[1].Seq != seqs[1] {
		t.Fatalf("it holds %d", held[1].Seq)
	}
	if err := held[1].Ack(); err != nil {
		t.Fatal(err)
	}
	// Offers above the mark that were settled come again and go no further; the others are there.
	for _, seq := range seqs[3:] {
		offer := next(t, o)
		if offer.Seq != seq {
			t.Errorf("offer %d came, want %d", offer.Seq, seq)
		}
		if err := offer.Ack(); err != nil {
			t.Fatal(err)
		}
	}
	// They may have been handed out before they came again: until then it is unknown what lies
	// between.
	testkit.Eventually(t, "all is done with", func() bool { return o.Low() > seqs[4] })
}

// A consumer that seemed lost and is there after all keeps its leases; one that was made again
// keeps none, and does not claim to.
func TestOwnRouteThatOnlySeemedLost(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{AckWait: 30 * time.Second})
	o := must(s.Offers(within(t), []string{"@n1"}))(t).(*offers)
	t.Cleanup(o.Close)
	prove(t, o)
	aim(t, s, "n1")
	held := next(t, o)
	o.own.bereave(held.Seq - 1)
	if err := held.Extend(within(t)); !errors.Is(err, errOrphan) {
		t.Errorf("a lease that nobody counts was extended: %v", err)
	}
	prove(t, o)
	if err := held.Extend(within(t)); err != nil {
		t.Errorf("the consumer is there: %v", err)
	}
	if err := held.Ack(); err != nil {
		t.Fatal(err)
	}
	o.own.mu.Lock()
	defer o.own.mu.Unlock()
	if o.own.orphans > 0 {
		t.Error("a lease is still to be had back")
	}
}

// The consumer of a node is lost, and the connection goes before the server's answer says that it
// was made again. When the connection is back the node does not wait for that answer any more.
func TestOwnRouteDoesNotWaitForALostAnswer(t *testing.T) {
	t.Parallel()
	srv := startServer(t, embed.Config{})
	admin := openStore(t, connect(t, srv.URL()), streams.Layout{AckWait: 30 * time.Second})
	var deaf atomic.Bool
	answers := &natstest.Sieve{Lose: func(subject, _ string, _ []byte) bool {
		inbox, request := strings.CutPrefix(subject, nats.InboxPrefix)
		return deaf.Load() && request && strings.Contains(inbox, ".") // not what is pulled
	}}
	s := openStore(t, connect(t, srv.URL(), nats.SetCustomDialer(answers)), streams.Layout{AckWait: 30 * time.Second})
	o := must(s.Offers(within(t), []string{"@n1"}))(t).(*offers)
	prove(t, o)
	var waiting sync.WaitGroup
	t.Cleanup(waiting.Wait)
	t.Cleanup(o.Close)
	waiting.Go(func() { _, _ = o.Next(within(t)) })
	deaf.Store(true)
	dropRoute(t, admin, "n1")
	testkit.Eventually(t, "the server has made the consumer again", func() bool { return hasRoute(t, admin, "n1") })
	deaf.Store(false)
	if err := answers.Cut(); err != nil {
		t.Fatal(err)
	}
	soon, cancel := context.WithTimeout(within(t), request.ReadTimeout/2) // the answer would be awaited for nearly twice that
	defer cancel()
	if err := o.Prove(soon); err != nil {
		t.Error(err)
	}
}

// A server that takes seconds for each answer has not lost the consumer of a node: it is found, not
// made again, and what the node holds there stays its own.
func TestOwnRouteOfASlowServer(t *testing.T) {
	t.Parallel()
	srv := startServer(t, embed.Config{})
	for _, late := range testkit.Size([]time.Duration{1200 * time.Millisecond}, []time.Duration{1200 * time.Millisecond, 3 * time.Second}) {
		t.Run(late.String(), func(t *testing.T) {
			t.Parallel()
			var lag natstest.Lag
			id := node.ID("n" + strconv.Itoa(int(late.Milliseconds())))
			s := openStore(t, connect(t, srv.URL(), nats.SetCustomDialer(&lag)), streams.Layout{AckWait: 30 * time.Second})
			o := offersOf(t, s, id.Queue())
			prove(t, o)
			aim(t, s, id)
			held := next(t, o)
			lag.By(late)
			made, err := o.own.ensure(within(t))
			if made != "" || err != nil {
				t.Errorf("its consumer %s, %v", made, err)
			}
			if err := held.Extend(within(t)); err != nil {
				t.Error(err)
			}
			soon, cancel := context.WithTimeout(within(t), late/2)
			defer cancel()
			if made, err := o.own.ensure(soon); made != "" || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("within half of the time for an answer its consumer %s, %v", made, err)
			}
			if _, err := s.Node(within(t), id, 0); err != nil {
				t.Errorf("the facts of the node: %v", err)
			}
			lag.By(0)
		})
	}
}

// A proof that cannot begin, since the consumer is being made, ends with its time: the node's
// heartbeats wait for it.
func TestProofThatCannotBegin(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{AckWait: 30 * time.Second})
	o := must(s.Offers(within(t), []string{"@n1"}))(t).(*offers)
	t.Cleanup(o.Close)
	o.own.making <- struct{}{}
	ctx, cancel := context.WithTimeout(within(t), time.Millisecond)
	defer cancel()
	if err := o.Prove(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the proof ends with %v", err)
	}
}

// Offers that came before a cut do not show what the server has delivered after them, until it has
// been asked.
func TestOwnRouteDoubtsAfterACut(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{AckWait: 30 * time.Second})
	r := newOwnRoute(s, "n1")
	r.source().pull = must(pubsub.NewPuller(s.NC, names.LogStream, "none", pubsub.WorkerPace, 1, func(*nats.Msg) bool { return true }, func(context.Context) {}))(t)
	t.Cleanup(r.src.pull.Close)
	conn := uint64(0)
	r.conns = func() uint64 { return conn }
	said := func(floor uint64) {
		r.found(&jetstream.ConsumerInfo{AckFloor: jetstream.SequenceInfo{Stream: floor}})
	}
	comes := func(seq uint64) (*events.Offer, arrival) {
		o := &events.Offer{Record: events.Record{Seq: seq}, Lease: &lease{store: s, reply: "nowhere"}}
		a := r.track(o)
		return o, a
	}
	remade := func(floor uint64) {
		t.Helper()
		r.bereave(floor)
		r.mu.Lock()
		r.cut = false // as ensure does
		r.mu.Unlock()
	}
	check := func(what string, cut bool, low uint64) {
		t.Helper()
		if gotCut, got := r.isCut(), r.low(); gotCut != cut || got != low {
			t.Errorf("%s: cut %v, all done with below %d; want %v, %d", what, gotCut, got, cut, low)
		}
	}
	is := func(seq uint64, want arrival) *events.Offer {
		t.Helper()
		o, got := comes(seq)
		if got != want {
			t.Errorf("%d comes, and is %d, want %d", seq, got, want)
		}
		return o
	}
	said(6)
	check("an earlier process had 7", true, 7)
	remade(6)
	seven, eight := is(7, fresh), is(8, fresh)
	is(8, renewed) // its lease had run out
	settle(t, seven)
	settle(t, eight)
	check("both are settled", false, 9)
	settle(t, is(9, fresh))
	conn++
	eleven := is(11, fresh) // 10 was lost
	check("before the consumer was made again", true, 10)
	said(9)
	check("the consumer is there, and that says nothing", true, 10)
	settle(t, eleven)
	remade(9)
	check("made again", false, 10)
	ten := is(10, fresh)
	is(11, stale)
	check("10 runs", false, 10)
	ten.Lease.(*ownLease).handed()
	ten = is(10, fresh) // the running attempt may have given it up
	ten.Lease.(*ownLease).handed()
	remade(9)
	is(10, reclaimed)
	check("10 runs on", false, 10)

	// An offer that the node gives back, before or after its consumer is lost, is nobody's: when it
	// comes again, the node hands it out.
	back(t, ten)
	check("10 was given back", false, 10)
	remade(9)
	ten = is(10, fresh)
	ten.Lease.(*ownLease).handed()
	remade(9)
	back(t, ten)
	check("10 was given back to nobody", false, 10)
	is(10, fresh)
	if r.orphans > 0 {
		t.Errorf("%d leases are still to be had back", r.orphans)
	}
}

func back(t testing.TB, o *events.Offer) {
	t.Helper()
	if err := o.Return(); err != nil {
		t.Fatal(err)
	}
}

// A node remembers a settled offer as long as it may come again, and no longer.
func TestDoneWith(t *testing.T) {
	var d doneWith
	const n = 10 * ownWindow
	for seq := uint64(1); seq <= n; seq++ {
		d.add(seq, 1)
	}
	if !d.has(1) || !d.has(n) || d.has(n+1) {
		t.Error("something that may come again was forgotten, or was never settled")
	}
	for seq := uint64(n + 1); seq <= 10*n; seq++ {
		d.add(seq, seq)
	}
	if len(d.seqs) > 2*ownWindow {
		t.Errorf("%d are remembered of what cannot come again", len(d.seqs))
	}
}

// A later process goes on where the node said that it had got to.
func TestOwnRouteOfTheNextProcess(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	first := must(s.Offers(within(t), []string{"@n1"}))(t)
	for range 3 {
		aim(t, s, "n1")
		if err := next(t, first).Ack(); err != nil {
			t.Fatal(err)
		}
	}
	low := first.Low()
	first.Close()
	r := recorder(s)
	for _, c := range []node.Command{node.Register{Session: "s1"}, node.Beat{Session: "s1"}, node.Leave{Session: "s1", Low: low}} {
		if _, _, err := r.DoNode(within(t), "n1", c); err != nil {
			t.Fatal(err)
		}
	}
	dropRoute(t, s, "n1")
	waits := aim(t, s, "n1")
	second := offersOf(t, s, "@n1")
	if offer := next(t, second); offer.Seq != waits || offer.Deliveries != 1 {
		t.Errorf("offer %d came first, want %d: what is settled was not to come again", offer.Seq, waits)
	}
}

// Offers that the node has no place for do not hide its probe.
func TestProofBehindABacklog(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{AckWait: 30 * time.Second})
	for range 50 {
		aim(t, s, "n1")
	}
	o := offersOf(t, s, "@n1")
	began := time.Now()
	prove(t, o)
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("the proof took %v", took)
	}
	for range 50 { // and it has cost none of them
		if err := next(t, o).Ack(); err != nil {
			t.Fatal(err)
		}
	}
}

// The reason of each interruption is reported; silence is detected.
func TestOffersTellOfTrouble(t *testing.T) {
	t.Parallel()
	server := startServer(t, embed.Config{})
	nc := connect(t, server.URL())
	s := openStore(t, nc, streams.Layout{})
	o := offersOf(t, s, "default", "@n1")
	prove(t, o)
	if err := nc.ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	if b := <-o.Broken(); b.Reason != "the connection came back" || time.Since(b.At) > 20*time.Second {
		t.Errorf("broken: %+v", b)
	}
	prove(t, o)
	// A consumer that vanishes while a slot waits is made again.
	waiting := make(chan *events.Offer, 1)
	go func() { offer, _ := o.Next(within(t)); waiting <- offer }()
	dropRoute(t, s, "n1")
	if b := <-o.Broken(); b.Reason != "the consumer MR_NODE_n1 was lost and has been made again" {
		t.Errorf("broken: %+v", b)
	}
	prove(t, o)
	aim(t, s, "n1")
	<-waiting
	if err := o.Trouble(); err != nil {
		t.Errorf("trouble: %v", err)
	}
}

// hasRoute tells whether the server has a consumer for a node.
func hasRoute(t testing.TB, s *Store, id node.ID) bool {
	t.Helper()
	_, err := s.JS.Consumer(within(t), names.LogStream, names.NodeConsumer(id))
	if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		t.Fatal(err)
	}
	return err == nil
}

// The state that the server holds for a node can be removed, and removed again.
func TestDropNode(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	for _, id := range []node.ID{"n1", "n2"} {
		o := must(s.Offers(within(t), []string{"default", id.Queue()}))(t)
		prove(t, o)
		o.Close()
		if err := s.Beat(within(t), id, node.Heartbeat{Session: "s1"}, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.DropNode(within(t), "n2", time.Now().Add(-time.Hour)); err != nil { // it has begun anew
		t.Fatal(err)
	}
	for range 2 {
		if err := s.DropNode(within(t), "n1", time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if hasRoute(t, s, "n1") || !hasRoute(t, s, "n2") {
		t.Error("want no route of n1, and that of n2")
	}
	if got := fmt.Sprint(slices.Collect(maps.Keys(must(s.Alive(within(t)))(t)))); got != "[n2]" {
		t.Errorf("alive: %s", got)
	}
	if err := s.DropNode(within(t), "*", time.Now()); err == nil {
		t.Error("a name that is none was accepted")
	}
	if err := s.DropNode(within(t), "never-was", time.Now()); err != nil {
		t.Error(err)
	}
}

// The server itself removes the route of a node that pulls no more, whatever became of the node:
// also of one that died before it had registered, which only the server knows.
func TestForgottenRoute(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	offersOf(t, s, node.ID("n1").Queue())
	c := must(s.JS.Consumer(within(t), names.LogStream, names.NodeConsumer("n1")))(t)
	if keeps := c.CachedInfo().Config.InactiveThreshold; keeps != routeIdle {
		t.Errorf("the server keeps the route of a node for %v", keeps)
	}
	o := s.newOffers()
	t.Cleanup(o.Close)
	o.own = newOwnRoute(s, "n2")
	o.own.idle = 100 * time.Millisecond
	if err := o.serve(within(t), o.own.lane); err != nil {
		t.Fatal(err)
	}
	prove(t, o)
	o.own.src.pull.Drain() // as if its process had died
	testkit.Eventually(t, "the route is gone", func() bool { return !hasRoute(t, s, "n2") })
	if !hasRoute(t, s, "n1") {
		t.Error("the route of a node that waits is gone")
	}
}

// There are more nodes than the server answers of in one request.
func TestManyNodesAlive(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	const nodes = 1500
	for i := range nodes {
		raw(t, s, fmt.Sprintf("$KV.%s.n%d", names.NodesBucket, i), nil, []byte(`{"session":"s"}`))
	}
	if got := must(s.Alive(within(t)))(t); len(got) != nodes {
		t.Errorf("%d nodes are alive, want %d", len(got), nodes)
	}
	if h, ok, err := s.Beating(within(t), "n1400"); err != nil || !ok || h.Session != "s" {
		t.Errorf("a heartbeat is %+v, %v, %v", h, ok, err)
	}
	if _, ok, err := s.Beating(within(t), "nobody"); err != nil || ok {
		t.Errorf("nobody beats: %v, %v", ok, err)
	}
}
