package httpapi

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

const (
	// perAddress is how many connections one address of another machine may have, so that it cannot
	// take all.
	perAddress = 256
	// mostUnknown is how many connections may be open on which no known caller has asked yet, on this
	// machine and from proxies as well. One more closes the oldest.
	mostUnknown = 512
	// unknownFor is how long such a connection may be open without a request being answered.
	unknownFor = 5 * time.Second
)

// crowd is a listener that closes connections from addresses that have too many, and those of callers
// who do not say who they are. Proxies and this machine may have any number of the others, for they
// act for many callers.
type crowd struct {
	net.Listener
	most    int
	trusted func(netip.Addr) bool

	mu      sync.Mutex
	are     map[netip.Addr]int // guarded by mu
	unknown list.List          // guarded by mu; of *visitor, the oldest first
}

// Accept implements [net.Listener].
func (c *crowd) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		at, err := netip.ParseAddrPort(conn.RemoteAddr().String())
		from := at.Addr().Unmap()
		if err != nil || c.trusted(from) {
			from = netip.Addr{}
		}
		if v, ok := c.enter(conn, from); ok {
			return v, nil
		}
		_ = conn.Close() // nothing was sent
	}
}

// enter lets a connection in, unless its address has too many. The zero address is not counted.
func (c *crowd) enter(conn net.Conn, from netip.Addr) (*visitor, bool) {
	c.mu.Lock()
	if c.are == nil {
		c.are = map[netip.Addr]int{}
	}
	if from.IsValid() {
		if c.are[from] >= c.most {
			c.mu.Unlock()
			return nil, false
		}
		c.are[from]++
	}
	v := &visitor{Conn: conn, crowd: c, from: from}
	v.place = c.unknown.PushBack(v)
	v.late = time.AfterFunc(unknownFor, v.tooLong)
	var oldest *visitor
	if c.unknown.Len() > mostUnknown {
		oldest, _ = c.unknown.Front().Value.(*visitor)
	}
	c.mu.Unlock()
	if oldest != nil {
		_ = oldest.Close() // who has asked by now is known
	}
	return v, true
}

// visitor is a connection. Its fields are guarded by the mutex of its crowd.
type visitor struct {
	net.Conn
	crowd *crowd
	from  netip.Addr    // zero if it is not counted
	place *list.Element // among the unknown; nil once a known caller has asked, or it is closed
	late  *time.Timer
	asks  int  // requests that are being answered
	over  bool // it is to be closed with the last of them
	gone  bool
}

// known says that a known caller has asked on the connection.
func (v *visitor) known() {
	v.crowd.mu.Lock()
	defer v.crowd.mu.Unlock()
	v.leaveUnknown()
}

// leaveUnknown is called with the mutex held.
func (v *visitor) leaveUnknown() {
	if v.place != nil {
		v.crowd.unknown.Remove(v.place)
		v.place = nil
		v.late.Stop()
	}
}

// tooLong closes the connection if nobody is known on it, after the answer that is under way.
func (v *visitor) tooLong() {
	v.crowd.mu.Lock()
	v.over = v.place != nil
	end := v.over && v.asks == 0
	v.crowd.mu.Unlock()
	if end {
		_ = v.Close() // its caller may have done so
	}
}

// answering counts a request until the function that it returns is called.
func (v *visitor) answering() (answered func()) {
	v.crowd.mu.Lock()
	defer v.crowd.mu.Unlock()
	v.asks++
	return func() {
		v.crowd.mu.Lock()
		v.asks--
		over := v.over
		v.crowd.mu.Unlock()
		if over {
			v.tooLong()
		}
	}
}

// Close implements [net.Conn].
func (v *visitor) Close() error {
	v.crowd.mu.Lock()
	v.leaveUnknown()
	if c := v.crowd; !v.gone && v.from.IsValid() {
		if c.are[v.from]--; c.are[v.from] == 0 {
			delete(c.are, v.from)
		}
	}
	v.gone = true
	v.crowd.mu.Unlock()
	return v.Conn.Close()
}

type visitorKey struct{}

// withVisitor is the context of all requests on a connection.
func withVisitor(ctx context.Context, conn net.Conn) context.Context {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	return context.WithValue(ctx, visitorKey{}, conn)
}

// known says that the sender of a request is known.
func known(r *http.Request) {
	if v, ok := r.Context().Value(visitorKey{}).(*visitor); ok {
		v.known()
	}
}

// visited tells the connection of a request how long it is being answered.
func visited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if v, ok := r.Context().Value(visitorKey{}).(*visitor); ok {
			defer v.answering()()
		}
		next.ServeHTTP(w, r)
	})
}
