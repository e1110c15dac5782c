package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"

	"millrace/events"
	"millrace/service/answers"
	"millrace/task"
)

// ErrAddress: the service cannot listen on the address.
var ErrAddress = errors.New("the HTTP service cannot be served there")

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
	// Desk answers the requests, and shares the service's capacity among callers.
	Desk *answers.Desk
	// Machine is the credential of the machine.
	Machine *Machine
	// Tokens admit other callers. Default: none.
	Tokens Tokens
	// Now is the time by which tokens expire. Default: the machine's.
	Now func() time.Time
	// Version is the program's version.
	Version string
	// Pages answers browsers: all requests except those of programs. who authenticates the caller.
	// Default: a text that points to the paths for programs.
	Pages func(w http.ResponseWriter, r *http.Request, who func() (Caller, error))
	// Tools answers assistants, who ask at /mcp. Default: nobody does.
	Tools func(w http.ResponseWriter, r *http.Request, c Caller)
	// Largest returns how many bytes the body of a request to a page may have. Default: the same as
	// for the service.
	Largest func(r *http.Request) int64
	Log     *slog.Logger

	config   Config
	listener net.Listener
	port     string
	hosts    []string     // of this machine, under which the service answers
	cert     *certificate // nil without TLS
	keys     keys
	looking  looking
	rates    rates // of known callers

	strangers rates // of the others, by where they ask from

	headerTimeout, bodyTimeout time.Duration // for the caller to send its request
	alive                      time.Duration // how often an idle follower hears that the server is there
	// Nanoseconds; for new followers to take what they are sent.
	takesWithin atomic.Int64

	feed      *feed
	old       chan struct{} // places of followers that are sent records older than the feed
	followers atomic.Int64
	dropped   atomic.Int64
	figures   figures

	mu     sync.Mutex
	shared map[string]*sharedAnswer // guarded by mu; by request
	links  []link                   // guarded by mu; not yet opened, the oldest first
}

// Listen opens the address of a service. It answers nothing before [Server.Run]. The error wraps
// [ErrAddress], [ErrExposed] or [ErrConfig].
func Listen(ctx context.Context, config Config) (*Server, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	var c net.ListenConfig
	l, err := c.Listen(ctx, "tcp", config.Address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAddress, err)
	}
	s := &Server{
		config:        config,
		listener:      l,
		headerTimeout: headersWithin,
		bodyTimeout:   bodyWithin,
		alive:         stillThere,
		feed:          newFeed(),
		old:           make(chan struct{}, oldReaders),
		looking:       looking{wake: make(chan struct{}, 1)},
		shared:        map[string]*sharedAnswer{},
		rates:         rates{limit: config.Rate},
		strangers:     rates{limit: strangersRate},
	}
	s.takesWithin.Store(int64(takesWithin))
	if err := s.secure(); err != nil {
		_ = l.Close() // no connection was accepted
		return nil, err
	}
	return s, nil
}

// secure makes sure that the address is protected as it must be.
func (s *Server) secure() error {
	at, ok := s.listener.Addr().(*net.TCPAddr)
	if !ok {
		return fmt.Errorf("%w: %s", ErrExposed, s.listener.Addr())
	}
	if err := s.config.opens(at.AddrPort().Addr().Unmap()); err != nil {
		return err
	}
	s.port = fmt.Sprint(at.Port)
	for _, name := range []string{at.IP.String(), "localhost", "127.0.0.1", "::1"} {
		s.hosts = append(s.hosts, net.JoinHostPort(name, s.port))
	}
	if s.config.Cert == "" {
		return nil
	}
	s.cert = &certificate{cert: s.config.Cert, key: s.config.Key}
	if _, err := s.cert.load(); err != nil {
		return fmt.Errorf("%w: the certificate: %w", ErrConfig, err)
	}
	return nil
}

// URL returns the service's address for programs on this machine.
func (s *Server) URL() string {
	host := s.hosts[0]
	if at, ok := s.listener.Addr().(*net.TCPAddr); ok && at.IP.IsUnspecified() {
		host = net.JoinHostPort("127.0.0.1", s.port)
	}
	return s.scheme() + host + s.config.Prefix
}

func (s *Server) scheme() string {
	if s.cert != nil {
		return "https://"
	}
	return "http://"
}

// now returns the time by which tokens expire.
func (s *Server) now() time.Time {
	if s.Now != nil {
		return s.Now()
	}
	return time.Now()
}

// Observe takes the changes of the log from the projector, for followers.
func (s *Server) Observe(steps []events.Step) {
	s.feed.Observe(steps)
	if slices.ContainsFunc(steps, func(is events.Step) bool { return is.Record.Fact.Def.Kind() == task.DefToken }) {
		s.looking.ask()
	}
}

// Await gives the body of a request that long to arrive, longer than usual.
func Await(w http.ResponseWriter, within time.Duration) {
	// Without deadlines it waits anyway.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(within))
}

// Afford gives the answer to a request that long, longer than usual.
func Afford(w http.ResponseWriter, within time.Duration) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(within)) // as above
}

// Followers returns how many followers there are now, and how many were dropped because they were
// too slow.
func (s *Server) Followers() (now, dropped int64) { return s.followers.Load(), s.dropped.Load() }

// Close releases the address. Run also does.
func (s *Server) Close() { _ = s.listener.Close() } // nothing uses it any more

// Run answers requests until ctx ends, and then returns nil.
func (s *Server) Run(ctx context.Context) error {
	s.keys.setMachine(s.Machine)
	var keeping sync.WaitGroup
	defer keeping.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if s.Tokens != nil {
		known := make(chan struct{})
		keeping.Go(func() { s.keepUses(ctx) })
		keeping.Go(func() { s.keepTokens(ctx, sync.OnceFunc(func() { close(known) })) })
		select { // new connections wait meanwhile
		case <-known:
		case <-ctx.Done():
			return nil
		}
	}
	server := &http.Server{
		Handler:           visited(s.handler()),
		ReadHeaderTimeout: s.headerTimeout,
		ReadTimeout:       s.bodyTimeout,
		WriteTimeout:      answerWithin,
		IdleTimeout:       idleFor,
		MaxHeaderBytes:    largestHeader,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext:       withVisitor,
		ErrorLog:          slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
	listener := net.Listener(&crowd{
		Listener: netutil.LimitListener(s.listener, maxConnections),
		most:     perAddress,
		trusted: func(from netip.Addr) bool {
			return from.IsLoopback() || s.config.listed(from)
		},
	})
	ended := make(chan error, 1)
	go func() {
		if s.cert == nil {
			ended <- server.Serve(listener)
			return
		}
		server.TLSConfig = s.cert.config(s.Log)
		ended <- server.ServeTLS(listener, "", "")
	}()
	select {
	case err := <-ended:
		return fmt.Errorf("serve HTTP: %w", err)
	case <-ctx.Done():
	}
	_ = server.Close() // interrupted callers will ask again
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP: %w", err)
	}
	return nil
}
