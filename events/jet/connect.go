package jet

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"millrace/events/jet/request"
)

// ConnectConfig says how to reach a NATS server, in the terms of the nats command line. Zero fields
// have no effect.
type ConnectConfig struct {
	// Server is one URL or several, separated by commas.
	Server string
	// Context names a context of the nats command line, or is the path of a file and then contains
	// a slash.
	Context string
	User    string
	// Password belongs to User. A User without a Password is a token.
	Password string
	// Token takes the place of User and Password.
	Token   string
	Creds   string // file
	NKey    string // file with a seed
	TLSCert string // file
	TLSKey  string // file
	TLSCA   string // file
	// InboxPrefix begins the subjects of answers: subjects to which only this user may subscribe.
	// Default: the context's, or "_INBOX".
	InboxPrefix string
	Timeout     time.Duration
	// Ping is how often the connection asks whether the server is there. Without three answers in a
	// row it counts as dead, and is made anew. Default [DefaultPing].
	Ping time.Duration
	// Name is shown in the server's list of connections.
	Name string
	Log  *slog.Logger
	// Patience bounds how a client on this connection waits for a cluster that elects its leaders.
	Patience request.Patience
	// Clock is the clock of a client on this connection; see [WithClock]. Default: one of its own.
	Clock *request.Clock
}

// Connect connects to a server. If no server can be reached it returns an error at once; a
// connection that it has made reconnects by itself after any loss.
func Connect(cfg ConnectConfig) (*nats.Conn, error) {
	opts := Resilient(cfg.Name, cfg.Log)
	if cfg.Timeout > 0 {
		opts = append(opts, nats.Timeout(cfg.Timeout))
	}
	if cfg.Ping > 0 {
		opts = append(opts, nats.PingInterval(cfg.Ping))
	}
	context, err := cfg.settled()
	if err != nil {
		return nil, err
	}
	servers, who, err := context.Reach()
	if err != nil {
		return nil, fmt.Errorf("context %q: %w", cfg.Context, err)
	}
	nc, err := nats.Connect(servers, append(who, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", Nameless(servers), err)
	}
	return nc, nil
}

// settled returns the context overridden by the other fields. If they name a user, none of the
// context's credentials is used.
func (cfg *ConnectConfig) settled() (c request.Context, err error) {
	if cfg.Context != "" {
		if c, err = request.Load(cfg.Context); err != nil {
			return c, err
		}
	}
	if cfg.User+cfg.Token+cfg.Creds+cfg.NKey != "" {
		c.User, c.Password, c.Token, c.Creds, c.NKey, c.UserJWT, c.UserSeed = "", "", "", "", "", "", ""
	}
	user, token := cfg.User, cfg.Token
	if cfg.Password == "" {
		user, token = "", cmp.Or(token, user)
	}
	for _, f := range []struct {
		to   *string
		said string
	}{
		{&c.URL, cfg.Server}, {&c.User, user}, {&c.Password, cfg.Password}, {&c.Token, token}, {&c.Creds, cfg.Creds}, {&c.NKey, cfg.NKey},
		{&c.Cert, cfg.TLSCert}, {&c.Key, cfg.TLSKey}, {&c.CA, cfg.TLSCA}, {&c.InboxPrefix, cfg.InboxPrefix},
	} {
		*f.to = cmp.Or(f.said, *f.to)
	}
	return c, nil
}

// Nameless returns the addresses of servers, separated by commas, without user, password or token:
// fit for display.
func Nameless(servers string) string {
	all := strings.Split(servers, ",")
	for i, server := range all {
		scheme, rest, ok := strings.Cut(server, "://")
		if !ok {
			scheme, rest = "", server
		}
		if at := strings.LastIndexByte(rest, '@'); at >= 0 {
			if all[i] = rest[at+1:]; ok {
				all[i] = scheme + "://" + all[i]
			}
		}
	}
	return strings.Join(all, ",")
}

// DefaultPing is the default of [ConnectConfig.Ping].
const DefaultPing = 3 * time.Second

// unanswered is how many pings may be without an answer when the next one is due. With one more the
// connection counts as dead.
const unanswered = 2

// Resilient returns the options of every connection of Millrace: it notices a dead peer within 9 s
// ([DefaultPing]), and tries for ever to reconnect, soon and with some jitter, also where the server
// refuses its credentials. It reports that to log, if log is not nil. An owner that waits for
// something also waits for [request.Link.Gone]: after errors that the client library does not know it
// closes the connection for good.
func Resilient(name string, log *slog.Logger) []nats.Option {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	refused := &refusal{log: log.With("connection", name)}
	return []nats.Option{
		nats.Name(name),
		nats.MaxReconnects(-1),
		// Else the library closes the connection at the second refusal. But passwords, accounts and
		// expired credentials are mended on the server while clients wait.
		nats.IgnoreAuthErrorAbort(),
		nats.PingInterval(DefaultPing), nats.MaxPingsOutstanding(unanswered),
		nats.CustomReconnectDelay(reconnectDelay),
		nats.NoCallbacksAfterClientClose(),
		nats.ClosedHandler(func(nc *nats.Conn) {
			log.Error("the connection to NATS is closed for good", "connection", name, "error", request.Gone(nc))
		}),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("connection to NATS lost; trying to come back", "error", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			refused.over()
			log.Info("connected to NATS again", "server", connectedTo(nc))
		}),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			if denied := request.DeniedBy(err); denied != nil {
				log.Warn(denied.Error()+": grant it to this user of the NATS server; `millrace nats permissions` prints what each role needs", "subject", denied.Subject)
				return
			}
			if refused.takes(err) {
				return
			}
			about := log
			if sub != nil {
				about = log.With("subject", sub.Subject)
			}
			about.Warn("NATS reports an error", "error", err)
		}),
	}
}

// refusal says once per outage that the server refuses the connection, which tries about once a
// second.
type refusal struct {
	log  *slog.Logger
	said atomic.Bool
}

// refusals are the server's reasons not to take a connection.
var refusals = []error{
	nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired,
	nats.ErrMaxConnectionsExceeded, nats.ErrMaxAccountConnectionsExceeded,
}

// takes says a refusal, unless it was said before, and tells whether err is one.
func (r *refusal) takes(err error) bool {
	if !slices.ContainsFunc(refusals, func(of error) bool { return errors.Is(err, of) }) {
		return false
	}
	if !r.said.Swap(true) {
		r.log.Error("the NATS server refuses this connection; trying again until it takes it", "error", err)
	}
	return true
}

func (r *refusal) over() { r.said.Store(false) }

// connectedTo names the server of a connection. Within a process no address is dialled, and the
// connection would name one where something else may listen.
func connectedTo(nc *nats.Conn) string {
	if nc.Opts.InProcessServer != nil {
		return "in this process"
	}
	return nc.ConnectedUrlRedacted()
}

// reconnectDelay doubles from 0.1 s to 1 s; half of it is random, so that many clients do not come
// back at once. With a longer delay, a task for a node would start much later after an outage than
// all others.
func reconnectDelay(attempts int) time.Duration {
	d := min(100*time.Millisecond<<min(attempts, 4), time.Second)
	return d/2 + rand.N(d/2)
}
