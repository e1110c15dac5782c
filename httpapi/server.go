package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"

	"millrace/api"
	"millrace/events"
)

// ErrAddress means that the address cannot be listened on.
var ErrAddress = errors.New("the HTTP service cannot be served there")

// ErrExposed refuses an address beyond loopback.
var ErrExposed = errors.New("the HTTP service would be open to other machines")

// Bounds of requests.
const (
	headersWithin = 5 * time.Second
	bodyWithin    = 20 * time.Second
	// answerTimeout is longer than a request may take.
	answerWithin   = 60 * time.Second
	idleFor        = 2 * time.Minute
	largestHeader  = 32 << 10
	maxConnections = 4096
)

// Server answers requests over HTTP. Create it with [Listen], and Run it once.
type Server struct {
	// Desk has the requests answered, and shares what it has in hand among who asks.
	Desk *api.Desk
	// Machine is the credential of the machine.
	Machine *Machine
	// Version is that of the program.
	Version string
	// Pages shows a browser what it asks for: all but what programs do. Who tells who asks. Default: a text that leads to what
	// programs ask for.
	Pages func(w http.ResponseWriter, r *http.Request, who func() (Caller, error))
	Log   *slog.Logger

	listener net.Listener
	port     string
	hosts    []string // under which the service answers

	headerTimeout, bodyTimeout time.Duration // for what who asks has to send
	takesWithin                time.Duration // for what who follows has to take

	feed      *feed
	old       chan struct{} // places of those who are sent what the feed no longer has
	followers atomic.Int64
	dropped   atomic.Int64

	mu     sync.Mutex
	shared map[string]*sharedAnswer // guarded by mu; by request
}

// Listen takes the address host:port, which is one of loopback; port 0 is a free one. Nothing is answered before [Server.Run]. The
// error wraps [ErrAddress] or [ErrExposed].
func Listen(ctx context.Context, address string) (*Server, error) {
	var c net.ListenConfig
	l, err := c.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAddress, err)
	}
	at, ok := l.Addr().(*net.TCPAddr)
	if !ok || !at.IP.IsLoopback() {
		_ = l.Close() // nobody was let in
		return nil, fmt.Errorf("%w: %s", ErrExposed, l.Addr())
	}
	s := &Server{listener: l, port: fmt.Sprint(at.Port), headerTimeout: headersWithin, bodyTimeout: bodyWithin, takesWithin: takesWithin, feed: newFeed(), old: make(chan struct{}, oldReaders), shared: map[string]*sharedAnswer{}}
	for _, name := range []string{at.IP.String(), "localhost", "127.0.0.1", "::1"} {
		s.hosts = append(s.hosts, net.JoinHostPort(name, s.port))
	}
	return s, nil
}

// URL is where the service is.
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() }

// Observe is told by the projector what the log has become, for those who follow it.
func (s *Server) Observe(steps []events.Step) { s.feed.Observe(steps) }

// Followers is how many follow something now, and how many were dropped because they took too long.
func (s *Server) Followers() (now, dropped int64) { return s.followers.Load(), s.dropped.Load() }

// Close gives the address back. Run does it, too.
func (s *Server) Close() { _ = s.listener.Close() } // of use to nobody any more

// Run answers requests until ctx ends, and then returns nil.
func (s *Server) Run(ctx context.Context) error {
	server := &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: s.headerTimeout, ReadTimeout: s.bodyTimeout, WriteTimeout: answerWithin, IdleTimeout: idleFor,
		MaxHeaderBytes: largestHeader, BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog: slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(netutil.LimitListener(s.listener, maxConnections)) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve HTTP: %w", err)
	case <-ctx.Done():
	}
	_ = server.Close() // who was asking asks again
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP: %w", err)
	}
	return nil
}
