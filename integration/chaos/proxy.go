package chaos

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// Proxy accepts connections on loopback and passes them on to one address.
type Proxy struct {
	listener net.Listener
	ctx      context.Context // ends with Close
	stop     context.CancelFunc
	running  sync.WaitGroup

	mu      sync.Mutex
	target  string             // guarded by mu
	mode    Mode               // guarded by mu
	changed chan struct{}      // guarded by mu; closed when the mode changes
	links   map[*link]struct{} // guarded by mu
	taken   int                // guarded by mu; connections so far
	closed  bool               // guarded by mu
}

// Listen starts a proxy to an address on a free port of loopback. The caller closes it.
func Listen(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	p := &Proxy{listener: l, target: target, changed: make(chan struct{}), links: map[*link]struct{}{}}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.running.Go(p.accept)
	return p, nil
}

// Addr returns the address that it listens on.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Taken returns how many connections it has accepted.
func (p *Proxy) Taken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}

// SetTarget sets the target of new connections.
func (p *Proxy) SetTarget(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = addr
}

// Set changes the proxy's behaviour, for existing and new connections.
func (p *Proxy) Set(m Mode) error {
	if err := m.validate(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.mode.Kind
	p.mode = m
	close(p.changed)
	p.changed = make(chan struct{})
	for l := range p.links {
		switch {
		case m.Kind == LinkCut, before == LinkHalfOpen:
			l.reset()
		case m.Kind == LinkHalfOpen:
			l.halve()
		}
	}
	return nil
}

// Close ends all connections and returns when nothing of the proxy is left.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	for l := range p.links {
		l.reset()
	}
	p.mu.Unlock()
	p.stop()
	_ = p.listener.Close() // nothing uses it any more
	p.running.Wait()
}

// now returns the mode, and a channel that closes when it changes.
func (p *Proxy) now() (Mode, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mode, p.changed
}

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if p.ctx.Err() != nil {
			if err == nil {
				abort(c)
			}
			return
		}
		if err != nil { // out of file descriptors, for example
			select {
			case <-p.ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
			continue
		}
		p.mu.Lock()
		p.taken++
		p.mu.Unlock()
		p.running.Go(func() { p.serve(c) })
	}
}

// serve connects one connection to the target, when the mode allows it.
func (p *Proxy) serve(client net.Conn) {
	l := newLink(p, client)
	if !p.add(l) {
		l.reset()
		return
	}
	defer p.remove(l)
	defer l.reset()
	for {
		mode, changed := p.now()
		if mode.Kind == LinkCut {
			return
		}
		if mode.Kind == LinkHalfOpen {
			l.halve()
			break
		}
		if mode.Kind != LinkBlackhole {
			break
		}
		select {
		case <-changed:
		case <-l.ended:
			return
		}
	}
	if !l.halved() && !l.connect() {
		return
	}
	l.run()
}

func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.links[l] = struct{}{}
	return true
}

func (p *Proxy) remove(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

func (p *Proxy) dial() (net.Conn, error) {
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	var d net.Dialer
	ctx, cancel := context.WithTimeout(p.ctx, 5*time.Second)
	defer cancel()
	c, err := d.DialContext(ctx, "tcp", target)
	if err != nil {
		return nil, err
	}
	if c.LocalAddr().String() == c.RemoteAddr().String() {
		// No process listens there, and the kernel has connected the port to itself.
		abort(c)
		return nil, fmt.Errorf("proxy: no server listens on %s", target)
	}
	return c, nil
}

// abort ends a connection as a broken one does: with a reset, and nothing sent before.
func abort(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // it may be closed already
	}
	_ = c.Close()
}

// hangUp ends a connection in order.
func hangUp(c net.Conn) { _ = c.Close() }
