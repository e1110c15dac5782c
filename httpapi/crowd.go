package httpapi

import (
	"net"
	"net/netip"
	"sync"
)

// perAddress is how many connections one address of another machine may have: it cannot take all.
const perAddress = 256

// crowd is a listener that hangs up on addresses with too many connections. Proxies and this machine speak for many.
type crowd struct {
	net.Listener
	most    int
	trusted func(netip.Addr) bool

	mu  sync.Mutex
	are map[netip.Addr]int // guarded by mu
}

// Accept implements [net.Listener].
func (c *crowd) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		at, err := netip.ParseAddrPort(conn.RemoteAddr().String())
		if from := at.Addr().Unmap(); err != nil || c.trusted(from) {
			return conn, nil
		} else if c.enter(from) {
			return &visitor{Conn: conn, leave: sync.OnceFunc(func() { c.leave(from) })}, nil
		}
		_ = conn.Close() // nothing was said
	}
}

func (c *crowd) enter(from netip.Addr) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.are == nil {
		c.are = map[netip.Addr]int{}
	}
	if c.are[from] >= c.most {
		return false
	}
	c.are[from]++
	return true
}

func (c *crowd) leave(from netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.are[from]--; c.are[from] == 0 {
		delete(c.are, from)
	}
}

// visitor is a connection that is counted.
type visitor struct {
	net.Conn
	leave func()
}

// Close implements [net.Conn].
func (v *visitor) Close() error {
	v.leave()
	return v.Conn.Close()
}
