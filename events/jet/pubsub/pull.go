package pubsub

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"millrace/events/jet/names"
)

// AtOnce is the smallest number of offers worth a request while others are on their way. Measured
// with 256 slots: 1 costs a tenth of the rate, above 64 the pipeline runs dry.
const AtOnce = 32

// Times of a pull request.
const (
	Look         = time.Second // how often a puller checks whether to ask again
	drainTimeout = time.Second
	// On how many inboxes of earlier requests a puller listens; connections can flap.
	pullPast = 4
	// cutOffAfter is how long after a bare message requests are renewed: with any number of them
	// the puller hears what comes to its earlier inboxes for a while.
	cutOffAfter = 20 * time.Millisecond
)

// Bare tells whether a message has neither body nor headers. The NATS server takes such an answer
// from another account for the last one, and drops all later ones to the same request, although it
// is only a stored message that a client has published so.
func Bare(m *nats.Msg) bool { return len(m.Data) == 0 && len(m.Header) == 0 }

// Pace is how long requests to a consumer last, and how often the server confirms with a heartbeat
// that it still has them; 0 for never. Expires bounds how long the server sends messages to a
// client that was cut off; both bound how long the loss of a consumer stays unnoticed.
type Pace struct{ Expires, Beat time.Duration }

var (
	// ReaderPace is for the few readers that follow a stream, and must notice soon that they missed
	// a message.
	ReaderPace = Pace{5 * time.Second, time.Second}
	// WorkerPace is for workers, of which thousands wait: each consumer costs an eighth of a
	// message a second.
	WorkerPace = Pace{16 * time.Second, 0}
)

// silence is how long the server may be silent before requests count as lost.
func (p Pace) silence() time.Duration { return cmp.Or(p.Beat, p.Expires) + 2*Look }

// Puller keeps a consumer supplied with pull requests, never for more messages than its owner
// wants. Every call of the client library either fetches ahead or subscribes anew each time; see
// its Fetch and Messages.
//
// The owner calls Want(1) for each message that it can take, and gets at least that many calls of
// take; more if it has withdrawn meanwhile, with Want(-1), or asked again. A message that take
// accepts is no longer wanted. So wanted is at all times the number of messages that the owner
// waits for, in whatever order messages and changes arrive.
type Puller struct {
	nc      *nats.Conn
	subject string // of requests
	pace    Pace
	take    func(*nats.Msg) (accepted bool)
	revive  func(context.Context) // called when the consumer does not answer or was deleted
	// Idle, if set before the first Want, is called now and then with the number of messages that
	// the consumer has sent.
	Idle func(sent uint64)
	// Most is how many bytes may answer a request, 0 for any number; it must exceed any message.
	// Messages that were asked for and do not fit are no longer wanted, and Cut is called with
	// their number.
	Most   int
	Cut    func(left int)
	cancel context.CancelFunc
	done   chan struct{}
	// elected receives the news that the consumer has another leader; nil for a puller that hears
	// from the server often.
	elected *nats.Subscription

	mu sync.Mutex
	// returned, if set, is called when the connection came back. Guarded by mu.
	returned func()
	inbox    *inbox   // guarded by mu; receives the answers to current requests
	past     []*inbox // guarded by mu; may still receive answers to earlier ones
	closed   bool     // guarded by mu
	wanted   int      // guarded by mu; messages that the owner wants
	asked    int      // guarded by mu; how many of them the server was asked for
	// atOnce is the smallest number of wanted messages worth a request while others are on their
	// way.
	atOnce int
	heard  time.Time // guarded by mu; when the server last sent anything, or was last asked anew
	// answered is when the consumer last answered, or when its owner began to want messages;
	// guarded by mu.
	answered time.Time
	mute     bool // guarded by mu; no server answers for the consumer
	cutOff   bool // guarded by mu; a renewal follows, because a request may have ended unheard
	// spare tells whether, at the last look, requests were open although no message was wanted.
	// Guarded by mu.
	spare bool
}

// inbox receives answers to requests. The server forgets requests whose inbox has no subscriber,
// and that is how they are withdrawn. Messages that it has already sent to another server of its
// cluster are then lost until their lease expires. So a puller does not withdraw at once: most
// requests are soon wanted again.
type inbox struct {
	p       *Puller
	subject string
	sub     *nats.Subscription
	over    time.Time // guarded by p.mu; for a replaced inbox, when its last request expires
}

// NewPuller returns a puller for a consumer of a stream. pace sets its requests; while messages are on
// their way it asks only for atOnce or more. It passes messages to take and calls revive when the
// consumer does not answer or was deleted. The caller calls Close or Drain.
func NewPuller(nc *nats.Conn, stream, consumer string, pace Pace, atOnce int, take func(*nats.Msg) bool, revive func(context.Context)) (*Puller, error) {
	ctx, cancel := context.WithCancel(context.Background())
	p := &Puller{
		nc: nc, subject: names.APINext + stream + "." + consumer, pace: pace,
		take: take, revive: revive, cancel: cancel, done: make(chan struct{}), atOnce: max(atOnce, 1), heard: time.Now(),
	}
	var err error
	if p.inbox, err = p.listen(); err == nil && pace.Beat == 0 {
		// Requests are forgotten when another server takes over. The server announces that; pullers
		// that rarely hear from it subscribe.
		p.elected, err = nc.Subscribe(names.ElectedAdvisory+stream+"."+consumer, func(*nats.Msg) { p.Renew() })
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("subscribe to %s: %w", consumer, err)
	}
	go p.watch(ctx, nc.StatusChanged(nats.CONNECTED, nats.CLOSED))
	return p, nil
}

func (p *Puller) listen() (in *inbox, err error) {
	in = &inbox{p: p, subject: p.nc.NewInbox()}
	if in.sub, err = p.nc.Subscribe(in.subject, in.receive); err != nil {
		return nil, err
	}
	return in, in.sub.SetPendingLimits(-1, -1) // bounded by what was asked for
}

// Close ends the puller; messages on their way are dropped.
func (p *Puller) Close() {
	for _, in := range p.stop() {
		_ = in.sub.Unsubscribe() // the connection may be gone already
	}
}

// Drain ends the puller, but first passes messages on their way to take, if they come soon.
func (p *Puller) Drain() {
	all := p.stop()
	over := make(chan struct{}, len(all))
	for _, in := range all {
		in.sub.SetClosedHandler(func(string) { over <- struct{}{} })
		if !p.nc.IsConnected() || in.sub.Drain() != nil {
			_ = in.sub.Unsubscribe()
		}
	}
	soon := time.After(drainTimeout)
	for range all {
		select {
		case <-over:
		case <-soon:
			return
		}
	}
}

// stop returns the inboxes that may still receive answers.
func (p *Puller) stop() []*inbox {
	p.cancel()
	<-p.done
	_ = p.elected.Unsubscribe() // the connection may be gone already
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	return append(p.past, p.inbox)
}

// Want asks for n more messages; n is negative when the owner withdraws. Messages that still come
// within a second or two must be returned.
func (p *Puller) Want(n int) {
	p.mu.Lock()
	if p.wanted <= 0 && p.wanted+n > 0 {
		p.answered = time.Now()
	}
	p.wanted += n
	batch, to := p.batch()
	p.mu.Unlock()
	p.request(batch, to)
}

// gone records that no server answers for the consumer; watch deals with that.
func (p *Puller) gone() {
	p.mu.Lock()
	p.mute = true
	p.mu.Unlock()
}

// OnReturn makes the puller call returned, on its own goroutine, each time the connection came
// back.
func (p *Puller) OnReturn(returned func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.returned = returned
}

// Unmute asks again at once if no server answered for the consumer a moment ago.
func (p *Puller) Unmute() {
	p.mu.Lock()
	mute := p.mute
	p.mu.Unlock()
	if mute {
		p.Renew()
	}
}

// Waiting returns how many messages the owner wants; below 0 if it has withdrawn more than it
// wanted.
func (p *Puller) Waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wanted
}

// Renew abandons the open requests, and asks for what is wanted now.
func (p *Puller) Renew() {
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
	p.heard = time.Now()
	p.inbox.over = p.heard.Add(p.pace.Expires + Look)
	if p.past = append(p.past, p.inbox); len(p.past) > pullPast {
		p.forget()
	}
	p.inbox, p.asked, p.mute, p.cutOff = in, 0, false, false
	batch, to := p.batch()
	p.mu.Unlock()
	p.request(batch, to)
}

// tidy ends the inboxes that cannot receive answers any more, and withdraws requests that were
// unneeded at two looks in a row.
func (p *Puller) tidy(now time.Time) {
	p.mu.Lock()
	spare := p.wanted <= 0 && p.asked > 0
	recall := spare && p.spare
	p.spare = spare
	p.mu.Unlock()
	if recall {
		p.Renew()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.past) > 0 && (recall || now.After(p.past[0].over)) {
		p.forget()
	}
}

// forget stops listening on the oldest of the earlier inboxes. The caller holds p.mu.
func (p *Puller) forget() {
	// Received messages are still taken; fails only if the connection is closed.
	_ = p.past[0].sub.Drain()
	p.past = slices.Delete(p.past, 0, 1)
}

// batch returns how many messages to ask for now, and counts them as asked.
func (p *Puller) batch() (n int, to *inbox) {
	missing := p.wanted - p.asked
	if missing <= 0 || (p.asked > 0 && missing < p.atOnce) {
		return 0, nil
	}
	p.asked += missing
	return missing, p.inbox
}

func (p *Puller) request(batch int, to *inbox) {
	if batch == 0 {
		return
	}
	body := make([]byte, 0, 80)
	body = append(body, `{"batch":`...)
	body = strconv.AppendInt(body, int64(batch), 10)
	body = append(body, `,"expires":`...)
	body = strconv.AppendInt(body, int64(p.pace.Expires), 10)
	if p.pace.Beat > 0 {
		body = append(body, `,"idle_heartbeat":`...)
		body = strconv.AppendInt(body, int64(p.pace.Beat), 10)
	}
	if p.Most > 0 {
		body = append(body, `,"max_bytes":`...)
		body = strconv.AppendInt(body, int64(p.Most), 10)
	}
	body = append(body, '}')
	// If this fails the connection is closed or full; watch asks again.
	_ = p.nc.PublishRequest(p.subject, to.subject, body)
}

func (in *inbox) receive(m *nats.Msg) {
	p := in.p
	if m.Reply == "" { // every real message asks for an acknowledgement, whatever its headers say
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
	if in == p.inbox { // else it is not counted any more
		p.asked = max(p.asked-1, 0)
	}
	if Bare(m) && !p.cutOff && !p.closed {
		p.cutOff = true
		time.AfterFunc(cutOffAfter, p.Renew)
	}
	batch, to := p.batch()
	p.mu.Unlock()
	p.request(batch, to)
}

// status handles the server's status message about a request.
func (p *Puller) status(in *inbox, h nats.Header) {
	status := h.Get("Status")
	p.mu.Lock()
	if in != p.inbox { // of an earlier, uncounted request; it too shows that the consumer answers
		if status == "100" || status == "408" {
			p.answered = time.Now()
		}
		p.mu.Unlock()
		return
	}
	p.heard = time.Now()
	var batch, cut int
	var to *inbox
	switch over := left(h, p.asked); {
	case status == "100": // a heartbeat: the server has the request
		p.answered = p.heard
	case status == "408": // it has expired
		p.answered = p.heard
		p.asked -= over
		batch, to = p.batch()
	case status == "409" && h.Get("Description") == bytesUsedUp && p.Cut != nil:
		p.answered = p.heard
		p.asked -= over
		p.wanted -= over
		cut = over
	default:
		// The consumer is gone (no responders, or it was deleted), its leader is changing, or the
		// server refuses. Asking again at once would be useless, perhaps a thousand times a second;
		// watch asks soon.
		p.asked = 0
		p.mute = status == "503" || h.Get("Description") == "Consumer Deleted"
	}
	p.mu.Unlock()
	p.request(batch, to)
	if cut > 0 {
		p.Cut(cut)
	}
	if status == "100" && p.Idle != nil {
		if sent, err := strconv.ParseUint(h.Get("Nats-Last-Consumer"), 10, 64); err == nil {
			p.Idle(sent)
		}
	}
}

// bytesUsedUp is the server's text when the next message exceeds the bytes of a request.
const bytesUsedUp = "Message Size Exceeds MaxBytes"

// left returns how many messages of a finished request have not come; all of them if the server
// does not say.
func left(h nats.Header, asked int) int {
	n, err := strconv.Atoi(h.Get("Nats-Pending-Messages"))
	if err != nil {
		return asked
	}
	return min(n, asked)
}

// Trouble returns what has kept messages away for some seconds; nil if nothing has.
func (p *Puller) Trouble() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	silent := time.Since(p.answered)
	if p.wanted <= 0 || silent < p.pace.trouble() {
		return nil
	}
	return fmt.Errorf("%s has not answered for %v", p.subject[strings.LastIndexByte(p.subject, '.')+1:], silent.Truncate(time.Second))
}

// trouble is how long a consumer may be completely silent. An idle consumer still sends heartbeats
// or expiries; after a change of leader it needs up to 6 s.
func (p Pace) trouble() time.Duration { return p.silence() + 6*time.Second }

// watch asks again if a request was lost: after a reconnect, and when the server has gone silent.
func (p *Puller) watch(ctx context.Context, status chan nats.Status) {
	defer close(p.done)
	defer p.nc.RemoveStatusListener(status)
	ticker := time.NewTicker(Look)
	defer ticker.Stop()
	for {
		again, mute := false, false
		select {
		case <-ctx.Done():
			return
		case now := <-status:
			if now == nats.CLOSED {
				p.revive(ctx) // in vain, so that the owner learns of it
				continue
			}
			again = true
			p.mu.Lock()
			returned := p.returned
			p.mu.Unlock()
			if returned != nil {
				returned()
			}
		case now := <-ticker.C:
			p.tidy(now)
			p.mu.Lock()
			mute = p.mute
			again = mute || p.wanted > 0 && (p.asked == 0 || time.Since(p.heard) > p.pace.silence())
			p.mu.Unlock()
		}
		if !again || !p.nc.IsConnected() {
			continue
		}
		if mute {
			p.revive(ctx)
		}
		p.Renew()
	}
}
