package jet

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Times of a pull request.
const (
	pullExpires   = 5 * time.Second // then the server forgets it, and hands nothing to who is cut off
	pullHeartbeat = time.Second     // how often the server says that it has not
	pullSilence   = 3 * pullHeartbeat
	pullRecall    = 100 * time.Millisecond // how often requests are taken back at most
	drainTimeout  = time.Second
)

// puller keeps a consumer supplied with pull requests, never for more messages
// than its owner asked for. The client library has no call that does not either
// fetch ahead or subscribe anew each time; see its Fetch and Messages.
//
// The owner calls want(1) for each message that it can take, and gets at least
// that many calls of take; more if it has changed its mind meanwhile, with
// want(-1), or after the connection was lost. What take accepts is no longer wanted. So wanted is
// at all times the number of messages that the owner waits for, whatever the
// order in which messages and changes of mind arrive.
type puller struct {
	nc      *nats.Conn
	subject string // of requests
	take    func(*nats.Msg) (accepted bool)
	revive  func(context.Context) // called when the consumer does not answer or was deleted
	// idle, if set, is told now and then how many messages the consumer has sent.
	idle   func(sent uint64)
	cancel context.CancelFunc
	done   chan struct{}

	mu sync.Mutex
	// returned, if set, is told when the connection came back. Guarded by mu.
	returned func()
	inbox    *inbox // guarded by mu; where the present requests want their answers
	closed   bool   // guarded by mu
	wanted   int    // guarded by mu; messages that the owner waits for
	asked    int    // guarded by mu; of those, the ones that the server was asked for
	// atOnce is how many wanted messages are worth a request while others are on their way.
	atOnce int
	heard  time.Time // guarded by mu; when the server last said anything, or was last asked anew
	// answered is when the consumer last answered, or when its owner began to
	// want something of it; guarded by mu.
	answered time.Time
	mute     bool      // guarded by mu; nobody answers for the consumer
	back     time.Time // guarded by mu; when requests were last taken back
}

// inbox is where answers to requests arrive. The server forgets requests to an
// inbox to which nobody listens, and that is how they are taken back.
type inbox struct {
	p       *puller
	subject string
	sub     *nats.Subscription
}

func newPuller(nc *nats.Conn, stream, consumer string, atOnce int, take func(*nats.Msg) bool, revive func(context.Context)) (*puller, error) {
	ctx, cancel := context.WithCancel(context.Background())
	p := &puller{
		nc: nc, subject: apiNext + stream + "." + consumer,
		take: take, revive: revive, cancel: cancel, done: make(chan struct{}), atOnce: max(atOnce, 1), heard: time.Now(),
	}
	var err error
	if p.inbox, err = p.listen(); err != nil {
		cancel()
		return nil, fmt.Errorf("subscribe to %s: %w", consumer, err)
	}
	go p.watch(ctx, nc.StatusChanged(nats.CONNECTED))
	return p, nil
}

func (p *puller) listen() (in *inbox, err error) {
	in = &inbox{p: p, subject: p.nc.NewInbox()}
	if in.sub, err = p.nc.Subscribe(in.subject, in.receive); err != nil {
		return nil, err
	}
	return in, in.sub.SetPendingLimits(-1, -1) // bounded by what was asked for
}

// close ends the puller; messages that are on their way are dropped.
func (p *puller) close() {
	_ = p.stop().sub.Unsubscribe() // the connection may be gone already
}

// drain ends the puller, but first has take see what is on its way, as far as
// that is soon.
func (p *puller) drain() {
	in := p.stop()
	over := make(chan struct{})
	in.sub.SetClosedHandler(func(string) { close(over) })
	if !p.nc.IsConnected() || in.sub.Drain() != nil {
		_ = in.sub.Unsubscribe()
		return
	}
	select {
	case <-over:
	case <-time.After(drainTimeout):
	}
}

func (p *puller) stop() *inbox {
	p.cancel()
	<-p.done
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	return p.inbox
}

// want asks for n more messages; n may be negative when the owner gives up
// waiting. Requests for messages of which none is wanted any more are taken
// back, though not all the time: what they bring finds its way back, too.
func (p *puller) want(n int) {
	p.mu.Lock()
	if p.wanted <= 0 && p.wanted+n > 0 {
		p.answered = time.Now()
	}
	p.wanted += n
	batch, to := p.batch()
	again := n < 0 && p.wanted <= 0 && p.asked > 0 && time.Since(p.back) > pullRecall
	p.mu.Unlock()
	p.request(batch, to)
	if again {
		p.renew()
	}
}

// gone notes that nobody answers for the consumer; watch sees to it.
func (p *puller) gone() {
	p.mu.Lock()
	p.mute = true
	p.mu.Unlock()
}

// renew takes back all requests and asks for what is wanted now.
func (p *puller) renew() {
	in, err := p.listen()
	if err != nil {
		return // the connection is closed
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		_ = in.sub.Unsubscribe()
		return
	}
	old := p.inbox
	p.inbox, p.asked, p.mute = in, 0, false
	p.heard = time.Now()
	p.back = p.heard
	batch, to := p.batch()
	p.mu.Unlock()
	_ = old.sub.Drain() // what is on its way is still taken
	p.request(batch, to)
}

// batch returns how many messages to ask for now, and counts them as asked.
func (p *puller) batch() (n int, to *inbox) {
	missing := p.wanted - p.asked
	if missing <= 0 || (p.asked > 0 && missing < p.atOnce) {
		return 0, nil
	}
	p.asked += missing
	return missing, p.inbox
}

func (p *puller) request(batch int, to *inbox) {
	if batch == 0 {
		return
	}
	body := make([]byte, 0, 80)
	body = append(body, `{"batch":`...)
	body = strconv.AppendInt(body, int64(batch), 10)
	body = append(body, `,"expires":`...)
	body = strconv.AppendInt(body, int64(pullExpires), 10)
	body = append(body, `,"idle_heartbeat":`...)
	body = strconv.AppendInt(body, int64(pullHeartbeat), 10)
	body = append(body, '}')
	// If this fails the connection is closed or full; watch asks again.
	_ = p.nc.PublishRequest(p.subject, to.subject, body)
}

func (in *inbox) receive(m *nats.Msg) {
	p := in.p
	if m.Reply == "" { // any message asks for an acknowledgement, whatever its headers pretend
		p.status(in, m.Header)
		return
	}
	accepted := p.take(m)
	p.mu.Lock()
	p.heard = time.Now()
	p.answered = p.heard
	if accepted {
		p.wanted--
	}
	if in == p.inbox { // else it was taken back, and not counted any more
		p.asked = max(p.asked-1, 0)
	}
	batch, to := p.batch()
	p.mu.Unlock()
	p.request(batch, to)
}

// status reads the server's word about a request.
func (p *puller) status(in *inbox, h nats.Header) {
	status := h.Get("Status")
	p.mu.Lock()
	if in != p.inbox {
		p.mu.Unlock()
		return
	}
	p.heard = time.Now()
	var batch int
	var to *inbox
	switch status {
	case "100": // a heartbeat: the request is remembered
		p.answered = p.heard
	case "408": // it has expired
		p.answered = p.heard
		left, err := strconv.Atoi(h.Get("Nats-Pending-Messages"))
		if err != nil {
			left = p.asked
		}
		p.asked = max(p.asked-left, 0)
		batch, to = p.batch()
	default:
		// The consumer is gone (no responders, or it was deleted), its leader is
		// changing, or the server refuses. To ask again at once would be in vain,
		// perhaps a thousand times a second; watch asks soon.
		p.asked = 0
		p.mute = status == "503" || h.Get("Description") == "Consumer Deleted"
	}
	p.mu.Unlock()
	p.request(batch, to)
	if status == "100" && p.idle != nil {
		if sent, err := strconv.ParseUint(h.Get("Nats-Last-Consumer"), 10, 64); err == nil {
			p.idle(sent)
		}
	}
}

// trouble says what has kept messages away for some seconds; nil if nothing has.
func (p *puller) trouble() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	silent := time.Since(p.answered)
	if p.wanted <= 0 || silent < troubleAfter {
		return nil
	}
	return fmt.Errorf("%s has not answered for %v", p.subject[strings.LastIndexByte(p.subject, '.')+1:], silent.Truncate(time.Second))
}

// troubleAfter is how long a consumer may say nothing at all. While it has
// nothing to deliver it says so each second; after a change of leader it needs up to 6 s.
const troubleAfter = 7 * time.Second

// watch asks again where a request was lost: after a reconnect, and when the
// server has gone silent.
func (p *puller) watch(ctx context.Context, status chan nats.Status) {
	defer close(p.done)
	defer p.nc.RemoveStatusListener(status)
	tick := time.NewTicker(pullHeartbeat)
	defer tick.Stop()
	for {
		again, mute := false, false
		select {
		case <-ctx.Done():
			return
		case <-status:
			again = true
			p.mu.Lock()
			returned := p.returned
			p.mu.Unlock()
			if returned != nil {
				returned()
			}
		case <-tick.C:
			p.mu.Lock()
			mute = p.mute
			again = mute || p.wanted > 0 && (p.asked == 0 || time.Since(p.heard) > pullSilence)
			p.mu.Unlock()
		}
		if !again || !p.nc.IsConnected() {
			continue
		}
		if mute {
			p.revive(ctx)
		}
		p.renew()
	}
}
