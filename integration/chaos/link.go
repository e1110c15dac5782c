package chaos

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	chunkSize = 16 << 10
	// inFlight is how many chunks may be on their way, each way: enough for the link's delay, and
	// few enough that a sender notices a blackhole.
	inFlight = 64
)

// link is one connection through the proxy.
type link struct {
	proxy  *Proxy
	client net.Conn
	chunks atomic.Int64 // read, both ways

	ended chan struct{} // closed by reset

	mu     sync.Mutex
	server net.Conn // guarded by mu; nil before connect, and when halved
	half   bool     // guarded by mu; the server's end is gone and the client does not know
	over   bool     // guarded by mu
}

func newLink(p *Proxy, client net.Conn) *link {
	return &link{proxy: p, client: client, ended: make(chan struct{})}
}

// reset ends both ends as a broken link does.
func (l *link) reset() { l.end(abort) }

// end ends both ends.
func (l *link) end(closing func(net.Conn)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return
	}
	l.over = true
	close(l.ended)
	closing(l.client)
	if l.server != nil {
		closing(l.server)
	}
}

// halve ends only the server's end.
func (l *link) halve() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.half = true
	if l.server != nil {
		abort(l.server)
		l.server = nil
	}
}

func (l *link) halved() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.half
}

// connect opens the server's end; false if that fails.
func (l *link) connect() bool {
	c, err := l.proxy.dial()
	if err != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.over:
		abort(c)
		return false
	case l.half:
		abort(c)
	default:
		l.server = c
	}
	return true
}

// run carries bytes both ways until an end is gone.
func (l *link) run() {
	l.mu.Lock()
	server := l.server
	l.mu.Unlock()
	var both sync.WaitGroup
	if server != nil {
		both.Go(func() { l.carry(server, l.client) })
	}
	both.Go(func() { l.carry(l.client, server) })
	both.Wait()
}

// chunk is a piece of data on its way.
type chunk struct {
	number int64 // within its connection, both ways, from 1
	bytes  []byte
	read   time.Time
}

// carry reads from one end and writes to the other (nil discards).
func (l *link) carry(from, to net.Conn) {
	way := make(chan chunk, inFlight)
	var writing sync.WaitGroup
	writing.Go(func() {
		for c := range way {
			if !l.deliver(c, to) {
				l.gone(from, abort)
			}
		}
	})
	closing := abort
	buffer := make([]byte, chunkSize)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			number := l.chunks.Add(1)
			select {
			case way <- chunk{number, append([]byte(nil), buffer[:n]...), time.Now()}:
			case <-l.ended:
				err = net.ErrClosed
			}
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				closing = hangUp // its last bytes must arrive
			}
			break
		}
	}
	close(way)
	writing.Wait()
	l.gone(from, closing)
}

// gone ends the link when one of its ends is gone, unless it is the end whose loss is hidden from
// the client.
func (l *link) gone(end net.Conn, closing func(net.Conn)) {
	if l.halved() && end != l.client {
		return
	}
	l.end(closing)
}

// deliver writes a chunk when the mode allows it; false if it cannot.
func (l *link) deliver(c chunk, to net.Conn) bool {
	sent, reached := 0, time.Now()
	for {
		mode, changed := l.proxy.now()
		wait := time.Duration(0)
		size := len(c.bytes) - sent
		switch mode.Kind {
		case LinkCut:
			return false
		case LinkHalfOpen:
			return true // it is discarded
		case LinkBlackhole:
			select {
			case <-changed:
				continue
			case <-l.ended:
				return false
			}
		case LinkDelay:
			wait = time.Until(c.read.Add(mode.Delay))
		case LinkThrottle:
			// A tenth of a second at a time.
			size = min(size, max(mode.Rate/10, 1))
			wait = time.Duration(size) * time.Second / time.Duration(mode.Rate)
		case LinkStall:
			if c.number%int64(mode.Every) == 0 && sent == 0 {
				wait = time.Until(reached.Add(mode.Delay)) // after what is held up before it
			}
		case LinkLose:
			if c.number%int64(mode.Every) == 0 {
				return true
			}
		case LinkDrop:
			if l.chunks.Load() >= int64(mode.Every) {
				return false
			}
		}
		if wait > 0 {
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-changed:
				timer.Stop()
				continue
			case <-l.ended:
				timer.Stop()
				return false
			}
		}
		if to == nil || l.halved() {
			return true
		}
		if _, err := to.Write(c.bytes[sent : sent+size]); err != nil {
			return l.halved()
		}
		if sent += size; sent == len(c.bytes) {
			return true
		}
	}
}
