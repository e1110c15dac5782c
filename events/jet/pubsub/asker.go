package pubsub

import (
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Times of an asker.
const (
	// Silence is how long a consumer may be silent before it counts as paused, at its limit or
	// unreachable. The request stays open; what it still brings is taken.
	Silence = 500 * time.Millisecond
	askLost = 4 * time.Second  // after that the request may have been lost, and is repeated
	Rest    = 10 * time.Second // how long a silent one is left alone
)

// Asker asks a consumer for the messages that it has right now. Unlike a puller it never waits at
// an empty one. So of several consumers only one at a time is asked for the same slot, and no offer
// is delivered that no slot can start.
type Asker struct {
	nc      *nats.Conn
	subject string // of requests
	// take is as a puller's.
	take func(*nats.Msg) (accepted bool)
	// bare is called when the consumer has nothing at present, or is silent.
	bare func(silent bool)
	// gone is called when no server answers for the consumer.
	gone func()

	mu      sync.Mutex
	inbox   string             // guarded by mu; "" before the first request
	sub     *nats.Subscription // guarded by mu
	closed  bool               // guarded by mu
	wanted  int                // guarded by mu; messages that the owner wants
	asked   int                // guarded by mu; how many of them the server was asked for
	sent    time.Time          // guarded by mu; when it was last asked
	silence *time.Timer        // guarded by mu; runs while an answer is expected
}

// NewAsker returns an asker for the consumer of a puller. take is as the puller's; bare is called
// when the consumer has nothing at present, or is silent.
func NewAsker(p *Puller, take func(*nats.Msg) (accepted bool), bare func(silent bool)) *Asker {
	return &Asker{nc: p.nc, subject: p.subject, gone: p.gone, take: take, bare: bare}
}

// Waiting returns how many messages the owner wants.
func (a *Asker) Waiting() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.wanted
}

// Want asks for n more messages; n is negative when the owner withdraws.
func (a *Asker) Want(n int) {
	a.mu.Lock()
	a.wanted += n
	a.ask()
	a.mu.Unlock()
}

// ask sends a request if one is due. The caller holds a.mu.
func (a *Asker) ask() {
	missing := a.wanted - a.asked
	if a.closed || a.wanted <= 0 {
		return
	}
	if missing > 0 && (a.asked == 0 || missing >= AtOnce) {
		if a.sub == nil && !a.listen() {
			return // the connection is closed
		}
		a.asked += missing
		a.sent = time.Now()
		body := strconv.AppendInt([]byte(`{"no_wait":true,"batch":`), int64(missing), 10)
		// If it fails, the silence shows it.
		_ = a.nc.PublishRequest(a.subject, a.inbox, append(body, '}'))
	}
	if a.silence == nil {
		a.silence = time.AfterFunc(Silence, a.silent)
	} else {
		a.silence.Reset(Silence)
	}
}

func (a *Asker) listen() bool {
	inbox := a.nc.NewInbox()
	sub, err := a.nc.Subscribe(inbox, func(m *nats.Msg) { a.receive(inbox, m) })
	if err != nil {
		return false
	}
	_ = sub.SetPendingLimits(-1, -1) // bounded by what was asked for
	a.inbox, a.sub = inbox, sub
	return true
}

func (a *Asker) receive(inbox string, m *nats.Msg) {
	if m.Reply == "" { // the end of a request: no more messages
		a.mu.Lock()
		old := inbox != a.inbox
		if !old {
			a.rest()
		}
		a.mu.Unlock()
		if !old {
			if m.Header.Get("Status") == "503" {
				a.gone()
			}
			a.bare(false)
		}
		return
	}
	accepted := a.take(m)
	a.mu.Lock()
	defer a.mu.Unlock()
	if accepted {
		a.wanted--
	}
	if inbox == a.inbox {
		if a.asked = max(a.asked-1, 0); a.asked == 0 {
			a.rest()
		}
	}
	a.ask()
}

// rest records that no request is open. The caller holds a.mu.
func (a *Asker) rest() {
	a.asked = 0
	if a.silence != nil {
		a.silence.Stop()
	}
}

// silent handles a consumer that does not answer.
func (a *Asker) silent() {
	a.mu.Lock()
	if a.asked == 0 || a.closed {
		a.mu.Unlock()
		return
	}
	lost := time.Since(a.sent) > askLost
	a.mu.Unlock()
	if lost {
		a.Forget()
	}
	a.bare(true)
}

// Forget drops the open request: it was lost, or the server forgets it as well, since it has no
// subscriber any more.
func (a *Asker) Forget() {
	a.mu.Lock()
	sub := a.sub
	a.sub, a.inbox = nil, ""
	a.rest()
	a.mu.Unlock()
	if sub != nil {
		_ = sub.Drain() // messages on their way are still taken
	}
}

// Close ends the asker; messages on their way are still taken.
func (a *Asker) Close() {
	a.mu.Lock()
	a.closed = true
	a.rest()
	sub := a.sub
	a.mu.Unlock()
	if sub == nil {
		return
	}
	over := make(chan struct{})
	sub.SetClosedHandler(func(string) { close(over) })
	if !a.nc.IsConnected() || sub.Drain() != nil {
		_ = sub.Unsubscribe()
		return
	}
	select {
	case <-over:
	case <-time.After(drainTimeout):
	}
}
