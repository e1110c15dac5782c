package jet

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	"millrace/events/jet/names"
	"millrace/events/jet/pubsub"
	"millrace/events/jet/streams"
	"millrace/internal/testkit"
)

var routeSeed = flag.Uint64("route-seed", 1, "the first `seed` of TestOwnRouteModel")

// routeModel is a node's route as its server and the node's slots see it: what the present consumer has
// to deliver, and in whose hands each offer is.
type routeModel struct {
	*ownRoute
	t     testing.TB
	rng   *rand.Rand
	conn  uint64
	story []string

	stored uint64           // the last offer of the stream
	floor  uint64           // behind which the consumer began
	high   uint64           // the last that it has delivered
	sent   map[uint64]bool  // what it has delivered, and was neither done nor given back
	mark   string           // of the consumer
	acked  map[uint64]bool  // at the server
	hands  map[uint64]*hold // what the node has
}

// hold is an offer in the hands of the node.
type hold struct {
	*events.Offer
	slot bool // not only read ahead
	lost bool // its consumer is, and it has not come again
}

func (m *routeModel) say(format string, v ...any) {
	m.story = append(m.story, fmt.Sprintf(format, v...))
}

func (m *routeModel) fail(format string, v ...any) {
	m.t.Helper()
	for _, line := range m.story {
		m.t.Log(line)
	}
	m.t.Fatalf(format, v...)
}

// reply records what the node says of an offer to the consumer that delivered it.
type reply struct {
	events.Lease
	m    *routeModel
	seq  uint64
	mark string
}

func (l reply) Ack() error {
	if l.acceptable() {
		delete(l.m.sent, l.seq)
		l.m.acked[l.seq] = true
	}
	return nil
}

func (l reply) Return() error {
	if l.acceptable() {
		delete(l.m.sent, l.seq)
	}
	return nil
}

func (l reply) Rest(time.Duration) error { return l.Return() }

// acceptable tells whether the consumer that delivered the offer is there.
func (l reply) acceptable() bool { return l.mark == l.m.mark }

// nextSent is what the consumer delivers next: an offer that was given back, one whose ack wait has ended,
// or the next one of the stream; 0 for nothing.
func (m *routeModel) nextSent() uint64 {
	var may []uint64
	for seq := m.floor + 1; seq <= min(m.high+1, m.stored); seq++ {
		if !m.acked[seq] && (!m.sent[seq] || m.rng.IntN(4) == 0) {
			may = append(may, seq)
		}
	}
	if len(may) == 0 {
		return 0
	}
	seq := may[m.rng.IntN(len(may))]
	m.sent[seq], m.high = true, max(m.high, seq)
	return seq
}

// deliver has the consumer deliver something.
func (m *routeModel) deliver() {
	seq := m.nextSent()
	if seq == 0 {
		return
	}
	o := &events.Offer{Record: events.Record{Seq: seq}, Lease: reply{m: m, seq: seq, mark: m.mark}}
	is, h := m.track(o), m.hands[seq]
	want := fresh // nobody has it, or whoever has it may have given up
	switch {
	case m.done.has(seq) && h == nil: // settled; its acknowledgement was lost with a consumer
		want = stale
	case h != nil && h.lost:
		want, h.lost = reclaimed, false
	case h != nil && !h.slot:
		want = renewed
	}
	m.say("%d is delivered: %d", seq, is)
	if is != want {
		m.fail("offer %d comes and is %d, want %d", seq, is, want)
	}
	switch is {
	case fresh:
		m.hands[seq] = &hold{Offer: o}
	case stale:
		_ = o.Ack()
	case reclaimed:
		m.src.pull.Want(-1) // as the puller does when it is accepted
	}
}

// one returns an offer that the node has; nil if none fits.
func (m *routeModel) one(fits func(*hold) bool) *hold {
	var all []uint64
	for seq, h := range m.hands {
		if fits(h) {
			all = append(all, seq)
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.Sort(all)
	return m.hands[all[m.rng.IntN(len(all))]]
}

// step does one thing that the server, the connection or a slot may do at any time.
func (m *routeModel) step() {
	switch m.rng.IntN(11) {
	case 0:
		m.stored++
	case 1, 2, 3:
		m.deliver()
	case 4:
		if h := m.one(func(h *hold) bool { return !h.slot }); h != nil {
			m.say("%d goes to a slot", h.Seq)
			h.slot = true
			h.Lease.(*ownLease).handed()
		}
	case 5:
		if h := m.one(func(*hold) bool { return true }); h != nil {
			m.say("%d is given back", h.Seq)
			delete(m.hands, h.Seq)
			if m.rng.IntN(2) == 0 {
				_ = h.Lease.Return()
			} else {
				_ = h.Lease.Rest(time.Second)
			}
			if m.sent[h.Seq] && h.Lease.(*ownLease).now.(reply).acceptable() {
				m.fail("the consumer does not know that %d was given back: it rests until its ack wait ends", h.Seq)
			}
		}
	case 6:
		if h := m.one(func(h *hold) bool { return h.slot }); h != nil {
			m.say("%d is done", h.Seq)
			delete(m.hands, h.Seq)
			_ = h.Lease.Ack()
		}
	case 7:
		for range m.rng.IntN(3) { // the server has not noticed yet
			if seq := m.nextSent(); seq > 0 {
				m.say("%d is delivered and lost", seq)
			}
		}
		m.say("the connection is cut")
		m.conn++
	case 8:
		m.remake(true)
	case 9:
		m.remake(false)
	case 10:
		m.found(m.info())
		for _, h := range m.hands {
			h.lost = h.lost && h.Lease.(*ownLease).now.(reply).mark != m.mark
		}
	}
}

func (m *routeModel) info() *jetstream.ConsumerInfo {
	floor := m.floor
	for m.acked[floor+1] {
		floor++
	}
	return &jetstream.ConsumerInfo{
		AckFloor: jetstream.SequenceInfo{Stream: floor},
		Config:   jetstream.ConsumerConfig{Metadata: map[string]string{markKey: m.mark}},
	}
}

// remake makes the consumer again, as ensure does. In vain it only seemed lost: that fails, and the
// next look finds it.
func (m *routeModel) remake(works bool) {
	low := m.low()
	if low == 0 {
		return // ensure would read the log
	}
	for seq := m.floor + 1; seq < low; seq++ {
		if !m.acked[seq] && !m.done.has(seq) {
			m.fail("the next consumer would begin at %d, behind offer %d, with which nobody is done", low, seq)
		}
	}
	conn := m.bereave(low - 1)
	for _, h := range m.hands {
		h.lost = true
	}
	m.say("the consumer is lost, and made again from %d: %v", low, works)
	if !works {
		return
	}
	m.floor, m.high, m.mark = low-1, low-1, fmt.Sprint("c", len(m.story))
	clear(m.sent)
	m.ownRoute.mu.Lock()
	defer m.ownRoute.mu.Unlock()
	m.ownRoute.mark = m.mark
	m.connected()
	m.cut = m.ownRoute.conn != conn
}

// Whatever happens to the consumer of a node, to its connection and to what it has delivered, in any
// order: what the node still has is its own when it comes again, what it has given back or never got is
// handed out, the consumer knows what was given back, and no consumer begins behind something with
// which nobody is done.
func TestOwnRouteModel(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{AckWait: 30 * time.Second})
	p := must(pubsub.NewPuller(s.NC, names.LogStream, "none", pubsub.WorkerPace, 1, func(*nats.Msg) bool { return true }, func(context.Context) {}))(t)
	t.Cleanup(p.Close)
	for seed := *routeSeed; seed < *routeSeed+testkit.Size[uint64](300, 20_000); seed++ {
		m := &routeModel{
			ownRoute: newOwnRoute(s, "n1"), t: t, rng: rand.New(rand.NewPCG(seed, 0)), mark: "c0",
			sent: map[uint64]bool{}, acked: map[uint64]bool{}, hands: map[uint64]*hold{},
		}
		m.say("seed %d", seed)
		m.source().pull = p
		m.conns = func() uint64 { return m.conn }
		m.ownRoute.conn = 0
		m.found(m.info())
		for range 60 {
			m.step()
			lost := 0
			for _, h := range m.hands {
				if h.lost {
					lost++
				}
			}
			if m.orphans != lost || p.Waiting() != lost {
				m.fail("%d leases are to be had back, and %d are asked for, want %d", m.orphans, p.Waiting(), lost)
			}
		}
		p.Want(-m.orphans)
	}
}
