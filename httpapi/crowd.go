package httpapi

import (
	"net"
	"net/netip"
	"sync"
)

// perAddress is how many connections one address of another machine may have, so that it cannot
// take all.
const perAddress = 256

// crowd is a listener that closes connections from addresses that have too many. Proxies and this
// machine are exempt, for they act for many callers.
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
		_ = conn.Close() // nothing was sent
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

// visitor is a counted connection.
type visitor struct {
	net.Conn
	leave func()
}

// Close implements [net.Conn].
func (v *visitor) Close() error {
	v.leave()
	return v.Conn.Close()
}
