package embed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Config describes a NATS server inside this process.
type Config struct {
	// Dir is its data directory. It is made if it does not exist, for this user alone ([LockDir]).
	Dir string
	// Host is the address that it listens on. Default 127.0.0.1; any address beyond loopback needs
	// Auth, and TLS or Insecure.
	Host string
	// Port is the port that it listens on; 0 for a free one.
	Port int
	// SyncAlways flushes every write to disk before it is acknowledged. Otherwise SyncInterval,
	// default 1s, bounds how much is lost if the machine (not only the process) fails.
	SyncAlways   bool
	SyncInterval time.Duration
	// Auth says who may connect. Default: clients with the password that the server makes at its
	// first start and keeps in Dir, readable for its user alone; [Server.URL] contains it.
	Auth Auth
	// TLS files; both or none.
	TLSCert, TLSKey string
	// Insecure lets it listen beyond loopback without TLS: then anyone who sees the packets reads
	// the credentials and all input and output of tasks.
	Insecure bool
	// Store is how many bytes the streams may hold together. Default: the free disk space, less a
	// reserve ([storeLimit]).
	Store int64
	// Connections is how many clients may be connected. Default [MaxConnections].
	Connections int
	Log         *slog.Logger
}

// Auth is one user and password, or one token, that every client must present.
type Auth struct{ User, Password, Token string }

func (a Auth) set() bool { return a.Token != "" || a.User != "" && a.Password != "" }

// Server is a NATS server inside this process, with its data directory locked. Its methods are
// safe for concurrent use.
type Server struct {
	cfg  Config
	lock *flock.Flock
	own  bool // the server has made the credential itself
	look chan struct{}

	mu      sync.Mutex
	ns      *server.Server // guarded by mu; replaced by each restart
	store   int64          // guarded by mu; how many bytes the streams may hold together
	trouble error          // guarded by mu; why the streams take no messages; nil if they do
	stopped bool           // guarded by mu
	hung    *server.Server // guarded by mu; the server that hangs; nil if none does

	// patience is how long the server may take to answer or to end.
	patience time.Duration
	// late begins to measure how long this process waits for processors ([lateness.worst]).
	late func() func() time.Duration
}

// MaxConnections is the default of Config.Connections: many more than an installation needs, and
// few enough for the memory of a small machine.
const MaxConnections = 4096

// Reasons why a server does not start.
var (
	// ErrLocked: another process uses the data directory.
	ErrLocked = errors.New("another process uses this data directory")
	// ErrExposed: the host is beyond loopback, and there is no authentication.
	ErrExposed = errors.New("an embedded server beyond loopback needs authentication")
	// ErrPlain: the host is beyond loopback, and there is no TLS.
	ErrPlain = errors.New("an embedded server beyond loopback needs TLS")
	// ErrPort: it cannot listen on its port.
	ErrPort = errors.New("cannot listen")
)

// Start starts a server and waits until it accepts connections. The error wraps [ErrLocked],
// [ErrShared], [ErrExposed], [ErrPlain] or [ErrPort] if that is the reason.
func Start(cfg Config) (*Server, error) {
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	if cfg.Host == "" {
		cfg.Host = "127.0.0.1"
	}
	switch {
	case cfg.SyncAlways:
		// Nothing is left to flush. But the server's periodic sync also keeps every block of
		// messages that was read since the last one, so reading a bundle each second would fill the
		// memory.
		cfg.SyncInterval = 2 * time.Minute
	case cfg.SyncInterval == 0:
		cfg.SyncInterval = time.Second
	}
	if !loopback(cfg.Host) {
		switch {
		case !cfg.Auth.set():
			return nil, fmt.Errorf("%w: it was to listen on %s", ErrExposed, cfg.Host)
		case cfg.TLSCert == "" && !cfg.Insecure:
			return nil, fmt.Errorf("%w: it was to listen on %s", ErrPlain, cfg.Host)
		}
	}
	// The server itself would silently share its directory with another one.
	lock, err := LockDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, lock: lock, look: make(chan struct{}, 1), patience: stopTime}
	s.late = func() func() time.Duration { return newLateness().worst }
	if !cfg.Auth.set() {
		if s.cfg.Auth, err = ownAuth(cfg.Dir); err != nil {
			s.Stop()
			return nil, err
		}
		s.own = true
	}
	if err := s.start(); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

func (s *Server) start() error {
	if s.cfg.Port != 0 {
		// The server would report this only in its own log.
		l, err := net.Listen("tcp", net.JoinHostPort(s.cfg.Host, strconv.Itoa(s.cfg.Port)))
		if err != nil {
			return fmt.Errorf("%w: %w", ErrPort, err)
		}
		_ = l.Close() // it has served its purpose
	}
	opts := &server.Options{
		ServerName: "millrace", Host: s.cfg.Host, Port: s.cfg.Port, MaxConn: cmp.Or(s.cfg.Connections, MaxConnections),
		JetStream: true, StoreDir: storeDir(s.cfg.Dir), DisableJetStreamBanner: true,
		SyncInterval: s.cfg.SyncInterval, SyncAlways: s.cfg.SyncAlways,
		// A client that was cut off silently counts as gone within 15 s, not 6 minutes.
		PingInterval: 5 * time.Second, MaxPingsOut: 2,
		NoSigs: true, MaxPayload: 8 << 20,
	}
	if s.own {
		opts.CustomClientAuthentication = ownClients(s.cfg.Auth)
	} else {
		opts.Username, opts.Password, opts.Authorization = s.cfg.Auth.User, s.cfg.Auth.Password, s.cfg.Auth.Token
	}
	if opts.Port == 0 {
		opts.Port = server.RANDOM_PORT
	}
	var err error
	if opts.JetStreamMaxStore, err = s.room(opts.StoreDir); err != nil {
		return err
	}
	if s.cfg.TLSCert != "" || s.cfg.TLSKey != "" {
		tls, err := server.GenTLSConfig(&server.TLSConfigOpts{CertFile: s.cfg.TLSCert, KeyFile: s.cfg.TLSKey})
		if err != nil {
			return fmt.Errorf("TLS: %w", err)
		}
		opts.TLSConfig, opts.TLS = tls, true
	}
	ns, err := server.NewServer(opts)
	if err != nil {
		return fmt.Errorf("embedded server: %w", err)
	}
	failed := make(chan string, 1)
	ns.SetLoggerV2(&serverLog{log: s.cfg.Log, fatal: failed, wrong: s.look}, false, false, false)
	if !s.use(ns, opts.JetStreamMaxStore) {
		return errStopped
	}
	ns.Start()
	deadline := time.Now().Add(30 * time.Second) // a large log is read at the start
	for !ns.ReadyForConnections(100 * time.Millisecond) {
		select {
		case why := <-failed:
			return fmt.Errorf("embedded server: %s", why)
		default:
		}
		if time.Now().After(deadline) {
			return errors.New("embedded server: not ready after 30s")
		}
	}
	if a, ok := ns.Addr().(*net.TCPAddr); ok && s.cfg.Port == 0 {
		s.cfg.Port = a.Port // a restart listens there, too, so that clients find it
	}
	return nil
}

// use makes ns the current server; false if Stop was called meanwhile.
func (s *Server) use(ns *server.Server, store int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		s.ns, s.store = ns, store
	}
	return !s.stopped
}

var errStopped = errors.New("embedded server: it was stopped")

func (s *Server) current() *server.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ns
}

// URL is where clients connect, with the password if the server has made it itself. Then the URL is
// a secret; [Server.Address] is not.
func (s *Server) URL() string {
	if !s.own {
		return s.Address()
	}
	scheme, rest, _ := strings.Cut(s.Address(), "://")
	return scheme + "://" + s.cfg.Auth.User + ":" + s.cfg.Auth.Password + "@" + rest
}

// Own returns the user and the password if the server has made them itself.
func (s *Server) Own() (user, password string, own bool) {
	return s.cfg.Auth.User, s.cfg.Auth.Password, s.own
}

// Address is where the server listens, for display.
func (s *Server) Address() string {
	scheme := "nats"
	if s.cfg.TLSCert != "" {
		scheme = "tls"
	}
	host := s.cfg.Host
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme + "://" + net.JoinHostPort(host, strconv.Itoa(s.cfg.Port))
}

// Exposed tells whether other machines can reach it.
func (s *Server) Exposed() bool { return !loopback(s.cfg.Host) }

// Store returns how many bytes the streams may hold together.
func (s *Server) Store() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.store
}

// Free returns how many bytes are free on the disk of its data directory.
func (s *Server) Free() (int64, error) { return diskFree(s.cfg.Dir) }

// Connect returns a connection that does not leave the process.
func (s *Server) Connect(opts ...nats.Option) (*nats.Conn, error) {
	own := []nats.Option{nats.InProcessServer(inProcess{s})}
	if a := s.cfg.Auth; a.Token != "" {
		own = append(own, nats.Token(a.Token))
	} else if a.User != "" {
		own = append(own, nats.UserInfo(a.User, a.Password))
	}
	nc, err := nats.Connect("", append(own, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("connect to the embedded server: %w", err)
	}
	return nc, nil
}

// inProcess connects each new connection to the server that runs at that moment.
type inProcess struct{ s *Server }

func (p inProcess) InProcessConn() (net.Conn, error) { return p.s.current().InProcessConn() }

// stopTime is how long a server may take to write its state. The next start rebuilds what it leaves
// out.
const stopTime = 10 * time.Second

// Stop ends the server and unlocks its directory, within 10 s. Everything acknowledged stays.
func (s *Server) Stop() {
	s.mu.Lock()
	s.stopped = true
	ns := s.ns
	if ns == s.hung {
		ns = nil // it does not end
	}
	s.mu.Unlock()
	if ns != nil {
		down := make(chan struct{})
		go func() {
			defer close(down)
			ns.Shutdown()
			ns.WaitForShutdown()
		}()
		late := time.NewTimer(stopTime)
		defer late.Stop()
		select {
		case <-down:
		case <-late.C:
			s.cfg.Log.Warn("the embedded NATS server does not end; it is left behind")
		}
	}
	_ = s.lock.Unlock() // the process's end would release it, too
}

// loopback tells whether every address of a host is this machine's own.
func loopback(host string) bool {
	if ip := net.ParseIP(host); ip != nil {
		return ip.IsLoopback()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	addrs, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	if err != nil || len(addrs) == 0 {
		return false
	}
	for _, a := range addrs {
		if !a.IP.IsLoopback() {
			return false
		}
	}
	return true
}

// serverLog passes on the server's log; routine messages become debug messages here.
type serverLog struct {
	log   *slog.Logger
	fatal chan<- string
	wrong chan<- struct{} // gets one for each error
}

func (l *serverLog) Noticef(format string, v ...any) { l.log.Debug(fmt.Sprintf("nats: "+format, v...)) }
func (l *serverLog) Warnf(format string, v ...any)   { l.log.Warn(fmt.Sprintf("nats: "+format, v...)) }
func (l *serverLog) Debugf(string, ...any)           {} // more than any of our levels shows
func (l *serverLog) Tracef(string, ...any)           {}

// Errorf makes the guard look at once: a stream that cannot be written to reports that only here.
func (l *serverLog) Errorf(format string, v ...any) {
	l.log.Error(fmt.Sprintf("nats: "+format, v...))
	select {
	case l.wrong <- struct{}{}:
	default: // it will look anyway
	}
}

// Fatalf must not end the process: the caller of Start gets the error instead.
func (l *serverLog) Fatalf(format string, v ...any) {
	select {
	case l.fatal <- fmt.Sprintf(format, v...):
	default:
	}
}
