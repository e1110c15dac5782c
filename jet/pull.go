package jet

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Times of a pull request.
const (
	pullExpires   = 30 * time.Second // then the server forgets it
	pullHeartbeat = time.Second      // how often the server says that it has not
	pullSilence   = 3 * pullHeartbeat
)

// puller keeps a consumer supplied with pull requests, never for more messages
// than its owner asked for. The client library has no call that does not either
// fetch ahead or subscribe anew each time; see its Fetch and Messages.
//
// The owner calls want for each message that it can take, and gets that many
// calls of take, from one goroutine.
type puller struct {
	nc      *nats.Conn
	subject string // of requests
	inbox   string
	sub     *nats.Subscription
	take    func(*nats.Msg)
	revive  func() // called when the consumer does not answer or was deleted
	once    sync.Once
	quit    chan struct{}
	done    chan struct{}

	mu     sync.Mutex
	wanted int // guarded by mu; messages that the owner waits for
	asked  int // guarded by mu; of those, the ones that the server was asked for
	// atOnce is how many wanted messages are worth a request while others are on their way.
	atOnce int
	heard  time.Time // guarded by mu; when the server last said anything
	mute   bool      // guarded by mu; nobody answers for the consumer
}

func newPuller(nc *nats.Conn, stream, consumer string, atOnce int, take func(*nats.Msg), revive func()) (*puller, error) {
	p := &puller{
		nc: nc, subject: "$JS.API.CONSUMER.MSG.NEXT." + stream + "." + consumer, inbox: nc.NewInbox(),
		take: take, revive: revive, quit: make(chan struct{}), done: make(chan struct{}), atOnce: max(atOnce, 1), heard: time.Now(),
	}
	sub, err := nc.Subscribe(p.inbox, p.receive)
	if err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", consumer, err)
	}
	if err := sub.SetPendingLimits(-1, -1); err != nil { // bounded by what was asked for
		return nil, err
	}
	p.sub = sub
	go p.watch()
	return p, nil
}

func (p *puller) close() {
	p.once.Do(func() { close(p.quit) })
	<-p.done
	_ = p.sub.Unsubscribe() // the connection may be gone already
}

// want asks for n more messages; n may be negative when the owner gives up waiting.
func (p *puller) want(n int) {
	p.mu.Lock()
	p.wanted += n
	batch := p.batch()
	p.mu.Unlock()
	p.request(batch)
}

// batch returns how many messages to ask for now, and counts them as asked.
func (p *puller) batch() int {
	missing := p.wanted - p.asked
	if missing <= 0 || (p.asked > 0 && missing < p.atOnce) {
		return 0
	}
	p.asked += missing
	return missing
}

func (p *puller) request(batch int) {
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
	_ = p.nc.PublishRequest(p.subject, p.inbox, body)
}

func (p *puller) receive(m *nats.Msg) {
	status := ""
	if len(m.Data) == 0 && m.Header != nil {
		status = m.Header.Get("Status")
	}
	p.mu.Lock()
	p.heard = time.Now()
	switch status {
	case "":
		p.wanted, p.asked = max(p.wanted-1, 0), max(p.asked-1, 0)
	case "100": // a heartbeat: the request is remembered
	case "503": // nobody listens: the consumer is gone, or its leader is changing
		p.asked, p.mute = 0, true
	default: // the request is over: it has expired, or the consumer is gone
		left, err := strconv.Atoi(m.Header.Get("Nats-Pending-Messages"))
		if err != nil {
			left = p.asked
		}
		p.asked = max(p.asked-left, 0)
		p.mute = m.Header.Get("Description") == "Consumer Deleted"
	}
	batch := 0
	if !p.mute {
		batch = p.batch()
	}
	p.mu.Unlock()
	if status == "" {
		p.take(m)
	}
	p.request(batch)
}

// watch asks again where a request was lost: after a reconnect, and when the
// server has gone silent.
func (p *puller) watch() {
	defer close(p.done)
	status := p.nc.StatusChanged(nats.CONNECTED)
	defer p.nc.RemoveStatusListener(status)
	tick := time.NewTicker(pullHeartbeat)
	defer tick.Stop()
	for {
		again, mute := false, false
		select {
		case <-p.quit:
			return
		case <-status:
			again = true
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
			p.revive()
		}
		p.mu.Lock()
		p.asked, p.heard, p.mute = 0, time.Now(), false
		batch := p.batch()
		p.mu.Unlock()
		p.request(batch)
	}
}
