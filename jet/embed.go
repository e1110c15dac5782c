package jet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/gofrs/flock"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
)

// ServerConfig describes a NATS server inside this process.
type ServerConfig struct {
	// Dir is where it keeps its data; it is made if it does not exist.
	Dir string
	// Host is where it listens. Default 127.0.0.1; anything beyond loopback needs Auth.
	Host string
	// Port is where it listens; 0 for a free one.
	Port int
	// SyncAlways flushes every write to disk before it is acknowledged. Otherwise
	// SyncInterval, default 1s, bounds what the loss of the machine, not of the
	// process, can take with it.
	SyncAlways   bool
	SyncInterval time.Duration
	// Auth is who may connect. Default: anybody who can reach it.
	Auth Auth
	// TLS files; both or none.
	TLSCert, TLSKey string
	Log             zerolog.Logger
}

// Auth is one user and password, or one token, that every client must present.
type Auth struct{ User, Password, Token string }

func (a Auth) set() bool { return a.Token != "" || a.User != "" && a.Password != "" }

// Server is a NATS server inside this process, with its data directory locked.
type Server struct {
	cfg  ServerConfig
	ns   *server.Server
	lock *flock.Flock
}

// Reasons why a server is not started.
var (
	// ErrLocked: another process uses the data directory.
	ErrLocked = errors.New("another process uses this data directory")
	// ErrExposed: it was to listen beyond loopback without authentication.
	ErrExposed = errors.New("an embedded server beyond loopback needs authentication")
	// ErrPort: it cannot listen on its port.
	ErrPort = errors.New("cannot listen")
)

// StartServer starts a server and waits until it takes connections. The error
// wraps [ErrLocked], [ErrExposed] or [ErrPort] if that is why it does not start.
func StartServer(cfg ServerConfig) (*Server, error) {
	if cfg.Host == "" {
		cfg.Host = "127.0.0.1"
	}
	switch {
	case cfg.SyncAlways:
		// Nothing is left to flush. What else is done at that time holds on to every block of
		// messages that was read since, so reading a bundle each second would fill the memory.
		cfg.SyncInterval = 2 * time.Minute
	case cfg.SyncInterval == 0:
		cfg.SyncInterval = time.Second
	}
	if !loopback(cfg.Host) && !cfg.Auth.set() {
		return nil, fmt.Errorf("%w: it was to listen on %s", ErrExposed, cfg.Host)
	}
	// The server itself would share its directory with another without a word.
	lock, err := LockDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, lock: lock}
	if err := s.start(); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// LockDir makes a data directory if it does not exist, and takes it for this
// process until the lock is given back or the process ends. The error wraps
// [ErrLocked] if another process has it.
func LockDir(dir string) (*flock.Flock, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	lock := flock.New(filepath.Join(dir, "lock"))
	if ok, err := lock.TryLock(); err != nil {
		return nil, fmt.Errorf("lock the data directory: %w", err)
	} else if !ok {
		return nil, fmt.Errorf("%w: %s", ErrLocked, dir)
	}
	return lock, nil
}

func (s *Server) start() error {
	if s.cfg.Port != 0 {
		// The server would say so only in its own log.
		l, err := net.Listen("tcp", net.JoinHostPort(s.cfg.Host, strconv.Itoa(s.cfg.Port)))
		if err != nil {
			return fmt.Errorf("%w: %w", ErrPort, err)
		}
		_ = l.Close() // it has served its purpose
	}
	opts := &server.Options{
		ServerName: "millrace", Host: s.cfg.Host, Port: s.cfg.Port,
		JetStream: true, StoreDir: filepath.Join(s.cfg.Dir, "nats"), DisableJetStreamBanner: true,
		SyncInterval: s.cfg.SyncInterval, SyncAlways: s.cfg.SyncAlways,
		// Whoever was cut off without a word is known to be gone within 15 s, not 6 minutes.
		PingInterval: 5 * time.Second, MaxPingsOut: 2,
		NoSigs: true, MaxPayload: 8 << 20,
		Username: s.cfg.Auth.User, Password: s.cfg.Auth.Password, Authorization: s.cfg.Auth.Token,
	}
	if opts.Port == 0 {
		opts.Port = server.RANDOM_PORT
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
	ns.SetLoggerV2(&serverLog{log: s.cfg.Log, fatal: failed}, false, false, false)
	s.ns = ns
	ns.Start()
	deadline := time.Now().Add(30 * time.Second) // a large log is read at start
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
	return nil
}

// URL is where clients connect.
func (s *Server) URL() string {
	port := s.cfg.Port
	if a, ok := s.ns.Addr().(*net.TCPAddr); ok {
		port = a.Port
	}
	scheme := "nats"
	if s.cfg.TLSCert != "" {
		scheme = "tls"
	}
	host := s.cfg.Host
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme + "://" + net.JoinHostPort(host, strconv.Itoa(port))
}

// Connect returns a connection that does not leave the process.
func (s *Server) Connect(opts ...nats.Option) (*nats.Conn, error) {
	own := []nats.Option{nats.InProcessServer(s.ns)}
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

// Stop ends the server and unlocks its directory. What was acknowledged stays.
func (s *Server) Stop() {
	if s.ns != nil {
		s.ns.Shutdown()
		s.ns.WaitForShutdown()
	}
	_ = s.lock.Unlock() // the process's end would do it too
}

// loopback tells whether a host's every address is this machine's own.
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

// serverLog passes the server's words on; what is routine there is detail here.
type serverLog struct {
	log   zerolog.Logger
	fatal chan<- string
}

func (l *serverLog) Noticef(format string, v ...any) { l.log.Debug().Msgf("nats: "+format, v...) }
func (l *serverLog) Warnf(format string, v ...any)   { l.log.Warn().Msgf("nats: "+format, v...) }
func (l *serverLog) Errorf(format string, v ...any)  { l.log.Error().Msgf("nats: "+format, v...) }
func (l *serverLog) Debugf(format string, v ...any)  { l.log.Trace().Msgf("nats: "+format, v...) }
func (l *serverLog) Tracef(format string, v ...any)  { l.log.Trace().Msgf("nats: "+format, v...) }

// Fatalf must not end the process: who started the server is told instead.
func (l *serverLog) Fatalf(format string, v ...any) {
	select {
	case l.fatal <- fmt.Sprintf(format, v...):
	default:
	}
}
