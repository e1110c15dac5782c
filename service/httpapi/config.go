package httpapi

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"

	"millrace/events"
	"millrace/events/jet/rights"
	"millrace/service/answers"
)

// ErrExposed: the service would be open to other machines without protection.
var ErrExposed = errors.New("the HTTP service would be open to other machines")

// ErrConfig: the settings of the service contradict each other.
var ErrConfig = errors.New("the HTTP service cannot be set up like that")

// Config says where the service answers, and which callers.
type Config struct {
	// Address is host:port; port 0 means a free one. An address beyond loopback needs Names, and
	// Cert and Key or ProxyFrom.
	Address string
	// Cert and Key are the files of a PEM certificate and its key, for TLS. They are read again
	// when they change.
	Cert, Key string
	// Names are the hosts, besides loopback, under which callers may address the service: host, or
	// host:port.
	Names []string
	// ProxyFrom are the addresses of proxies. Without TLS of its own the service answers only these
	// and loopback.
	ProxyFrom []netip.Prefix
	// UserHeader is the header in which these proxies name the user; "" if they do not. The service
	// trusts every request from their addresses. UserRole is the role of these users.
	UserHeader string
	UserRole   rights.Role
	// Prefix is the path below which a proxy publishes the service: "", or for example "/millrace".
	Prefix string
	// Hooks is the folder with the secrets of webhooks, each of at least 16 bytes in a file with the name
	// of a job: POST /hooks/JOB makes a task of it for whoever knows that. "" for no webhooks.
	Hooks string
	// Rate is how many requests a second one caller may send on average, whatever it asks for, with
	// ten times as many at once. A request beyond that is held for up to a second, and then refused.
	// 0 means no bound.
	Rate float64
}

// MaxRate is the largest [Config.Rate].
const MaxRate = 1_000_000

// Validate returns an error that says what is wrong. It wraps [ErrConfig].
func (c *Config) Validate() error {
	switch {
	case (c.Cert == "") != (c.Key == ""):
		return fmt.Errorf("%w: a certificate and its key belong together (--http-cert, --http-key)", ErrConfig)
	case c.UserHeader != "" && len(c.ProxyFrom) == 0:
		return fmt.Errorf("%w: the header %s would be ignored: name the addresses of the proxies (--http-proxy-from)", ErrConfig, c.UserHeader)
	case c.UserHeader != "" && (!httpguts.ValidHeaderFieldName(c.UserHeader) || slices.Contains(ownHeaders, http.CanonicalHeaderKey(c.UserHeader))):
		return fmt.Errorf("%w: %q is no header for the name of a user (--http-user-header)", ErrConfig, c.UserHeader)
	case c.UserHeader != "" && !slices.Contains(rights.Asking(), c.UserRole):
		return fmt.Errorf("%w: users of a proxy have no role %q (--http-user-role)", ErrConfig, c.UserRole)
	case c.Rate < 0 || c.Rate > MaxRate:
		return fmt.Errorf("%w: a caller may send %g requests a second, want up to %d (--http-rate)", ErrConfig, c.Rate, MaxRate)
	case c.Prefix != "" && (c.Prefix != path.Clean(c.Prefix) || c.Prefix == "/" || !plainPath(c.Prefix)):
		return fmt.Errorf("%w: the prefix is %q, want a path such as /millrace (--http-prefix)", ErrConfig, c.Prefix)
	}
	for _, p := range c.ProxyFrom {
		if p.Bits() == 0 {
			return fmt.Errorf("%w: every machine would be a proxy (--http-proxy-from %s)", ErrConfig, p)
		}
	}
	for _, name := range c.Names {
		if name == "" || strings.ContainsAny(name, "/*@ ") {
			return fmt.Errorf("%w: %q is no name of a host (--http-name)", ErrConfig, name)
		}
	}
	return nil
}

// ownHeaders are headers with a meaning of their own.
var ownHeaders = []string{"Authorization", "Cookie", "Host", "Origin", "Accept", "Content-Type", "Content-Length", "Last-Event-Id"}

// plainPath tells whether a path starts at the root and needs no escaping anywhere.
func plainPath(p string) bool {
	return strings.HasPrefix(p, "/") && !strings.ContainsFunc(p, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("/-._~", r)
	})
}

// opens refuses an address beyond loopback without protection. The error wraps [ErrExposed].
func (c *Config) opens(at netip.Addr) error {
	switch {
	case at.IsLoopback():
		return nil
	case c.Cert == "" && len(c.ProxyFrom) == 0:
		return fmt.Errorf("%w: %s: give it a certificate (--http-cert, --http-key), or name the proxies that protect it (--http-proxy-from)", ErrExposed, at)
	case len(c.Names) == 0:
		return fmt.Errorf("%w: %s: name the hosts under which it is asked (--http-name), so that no page of others leads a browser to it", ErrExposed, at)
	}
	return nil
}

// listed tells whether a peer is one of the proxies.
func (c *Config) listed(peer netip.Addr) bool {
	return slices.ContainsFunc(c.ProxyFrom, func(p netip.Prefix) bool { return p.Contains(peer) })
}

// admits tells whether a peer may send requests: without TLS, others could read and change what
// another machine sends.
func (c *Config) admits(peer netip.Addr) bool {
	return c.Cert != "" || peer.IsLoopback() || c.listed(peer)
}

// user returns the user that a proxy names; said is false if it names none. A request from
// elsewhere that names a user is refused.
func (c *Config) user(peer netip.Addr, h http.Header) (name string, said bool, err error) {
	if c.UserHeader == "" {
		return "", false, nil
	}
	names := h.Values(c.UserHeader)
	switch {
	case len(names) == 0:
		return "", false, nil
	case !c.listed(peer), len(names) > 1, !validUser(names[0]):
		return "", false, answers.ErrWho
	}
	return viaProxy + names[0], true, nil
}

// viaProxy stands before the name of a user whom a proxy names. No token, node or user of NATS has a
// name with a colon, so nobody can be taken for another.
const viaProxy = "proxy:"

// longestUser is how many bytes the name of a user may have.
const longestUser = 128

// validUser tells whether a name may be an actor in the log: names from proxies may be mail
// addresses, but not names of parts of Millrace.
func validUser(name string) bool {
	return name != "" && len(name) <= longestUser && utf8.ValidString(name) && !events.IsPart(name) &&
		!strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) })
}

// peerOf returns the address that a request comes from.
func peerOf(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{} // no proxy, and not of this machine
	}
	return at.Addr().Unmap()
}

// ours tells whether the service answers under a host name. A page whose own name was pointed at
// this machine (DNS rebinding) would use that name.
func (s *Server) ours(host string) bool {
	return slices.ContainsFunc(s.hosts, func(name string) bool { return strings.EqualFold(host, name) }) || s.keepsCookies(host) || s.config.named(host)
}

// named tells whether the operator has named a host as the service's.
func (c *Config) named(host string) bool {
	bare, _, err := net.SplitHostPort(host)
	if err != nil {
		bare = host
	}
	return slices.ContainsFunc(c.Names, func(name string) bool { return strings.EqualFold(host, name) || strings.EqualFold(bare, name) })
}
