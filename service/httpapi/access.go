package httpapi

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"millrace/events/jet/definitions"
	"millrace/events/jet/rights"
	"millrace/service/answers"
)

// Caller is the sender of a request, with its role.
type Caller struct {
	Name string
	Role rights.Role

	// life ends when the caller's credential is removed; nil means never.
	life context.Context
	// cookie is what the caller's browser sends; "" if a proxy has authenticated the caller.
	cookie string
}

// Machine is the credential of the machine: a process that can read it belongs to the user that
// runs the server. It admits only requests from this machine, or through a proxy on it.
type Machine struct {
	// Secret is the credential. Caller is its holder.
	Secret string
	Caller Caller
}

// Tokens are the tokens of an installation, as [jet.Store] has them.
type Tokens interface {
	TokenKeeper() *definitions.TokenKeeper
	// SaveTokenUse stores when a token was last used.
	SaveTokenUse(ctx context.Context, u definitions.TokenUse) error
}

// link is a secret that admits a browser, once, and the page that it then sees.
type link struct{ secret, cookie, to string }

// maxLinks is how many links may wait to be opened.
const maxLinks = 16

// link makes a secret for which a browser gets a cookie, and returns where the browser shows it.
func (s *Server) link(cookie, to string) string {
	secret := rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.links = append(s.links, link{secret, cookie, to})
	if more := len(s.links) - maxLinks; more > 0 {
		s.links = s.links[more:]
	}
	return "/login?key=" + url.QueryEscape(secret)
}

// open takes the secret of a link; false if there is no such link, or it was used before.
func (s *Server) open(secret string) (link, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, is := range s.links {
		if same(is.secret, secret) {
			s.links = append(s.links[:i], s.links[i+1:]...)
			return is, true
		}
	}
	return link{}, false
}

// browserHost is the host under which browsers of this machine reach the service. A browser sends a
// cookie to every port of a host (RFC 6265, section 8.5), so under 127.0.0.1 or localhost each program
// that listens on this machine could get it. Nobody can guess this name, and browsers resolve what ends
// in .localhost to loopback (RFC 6761, section 6.3). It stays the same as long as the secret of the machine
// does, so that bookmarks hold. With a certificate it is the first name that the operator gives, for that
// is what the certificate is for.
func (s *Server) browserHost() string {
	if s.cert != nil && len(s.config.Names) > 0 {
		if _, _, err := net.SplitHostPort(s.config.Names[0]); err == nil {
			return s.config.Names[0]
		}
		return net.JoinHostPort(s.config.Names[0], s.port)
	}
	hash := sha256.Sum256([]byte("host " + s.Machine.Secret))
	return net.JoinHostPort("m-"+strings.ToLower(base32.StdEncoding.EncodeToString(hash[:10]))+".localhost", s.port)
}

// keepsCookies tells whether a cookie of the host is the service's alone. The names of loopback are everybody's
// on the machine, also where the operator gives them; what a certificate is for has to do.
func (s *Server) keepsCookies(host string) bool {
	return strings.EqualFold(host, s.browserHost()) || s.config.named(host) && (s.cert != nil || !onLoopback(host))
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// who authenticates the sender of a request.
func (s *Server) who(r *http.Request) (Caller, error) {
	peer := peerOf(r)
	if name, said, err := s.config.user(peer, r.Header); said || err != nil {
		return Caller{Name: name, Role: s.config.UserRole}, err
	}
	if text := r.Header.Get("Authorization"); text != "" {
		if kind, secret, _ := strings.Cut(text, " "); strings.EqualFold(kind, "Bearer") {
			return s.bearer(r, secret)
		}
		return Caller{}, answers.ErrWho // a cookie does not make up for a wrong token
	}
	if c, err := r.Cookie(s.cookieName()); err == nil && s.keepsCookies(r.Host) {
		return s.keys.find(c.Value, peer, s.now())
	}
	return Caller{}, answers.ErrWho
}

// bearer returns the holder of a token. An unknown token may have been made this moment, by the
// command line or at another server, so the tokens are read once more.
func (s *Server) bearer(r *http.Request, secret string) (Caller, error) {
	secret = strings.TrimSpace(secret)
	cookie := definitions.TokenCookie(secret)
	if !s.keys.known(cookie) && definitions.LikeToken(secret) {
		s.lookAgain(r.Context())
	}
	return s.keys.find(cookie, peerOf(r), s.now())
}

// cookieName contains the port: browsers send a cookie to all ports of a host.
func (s *Server) cookieName() string { return "millrace_browser_" + s.port }

// Link returns an address that admits a browser of this machine, once.
func (s *Server) Link() string {
	return s.scheme() + s.browserHost() + s.config.Prefix + s.link(definitions.TokenCookie(s.Machine.Secret), "/")
}

// Browser tells whether the caller is admitted by a cookie of its browser, which the browser can
// drop.
func (c *Caller) Browser() bool { return c.cookie != "" }

// enter admits a browser whose user has entered a token, and redirects it to its destination. Other
// posts ask for a link for a browser.
func (s *Server) enter(w http.ResponseWriter, r *http.Request) {
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/x-www-form-urlencoded" {
		s.known(s.invite).ServeHTTP(w, r)
		return
	}
	if err := r.ParseForm(); err != nil {
		s.Refuse(w, wrong("the form cannot be read"))
		return
	}
	if key := r.PostForm.Get("key"); key != "" { // of a link, and its user has confirmed it
		s.admit(w, r, key)
		return
	}
	cookie := definitions.TokenCookie(strings.TrimSpace(r.PostForm.Get("token")))
	if _, err := s.bearer(r, r.PostForm.Get("token")); err != nil {
		s.ask(w, r, s.unknown(r, err))
		return
	}
	s.setCookie(w, r, cookie, PageAt(r.PostForm.Get("to")).String())
}

// PageAt returns the address of a page that a browser has sent, a path with a query: that of the first page
// if it could lead elsewhere.
func PageAt(to string) *url.URL {
	is, err := url.Parse(to)
	if err != nil || is.IsAbs() || is.Host != "" || !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.Contains(to, "..") || strings.ContainsRune(to, '\\') {
		return &url.URL{Path: "/"}
	}
	return is
}

// stranger refuses a browser without a valid credential: with a page for entering a token, if there
// are pages.
func (s *Server) stranger(w http.ResponseWriter, r *http.Request) { s.ask(w, r, answers.ErrWho) }

// ask refuses a browser with a page on which its user can answer, if there are pages.
func (s *Server) ask(w http.ResponseWriter, r *http.Request, what error) {
	if s.Pages == nil {
		s.Refuse(w, what)
		return
	}
	s.Pages(w, r, func() (Caller, error) { return Caller{}, what })
}

// leave makes a browser drop its cookie. The token stays valid.
func (s *Server) leave(w http.ResponseWriter, r *http.Request) { s.setCookie(w, r, "", "/") }

// invite makes a link for a browser of the caller.
func (s *Server) invite(w http.ResponseWriter, r *http.Request, c Caller) error {
	if c.cookie == "" {
		return answers.ErrRole
	}
	scheme := "http://"
	if s.encrypted(r) {
		scheme = "https://"
	}
	host := r.Host
	if !s.keepsCookies(host) {
		host = s.browserHost()
	}
	return s.sendJSON(w, r, map[string]string{"url": scheme + host + s.config.Prefix + s.link(c.cookie, "/")})
}

// login admits a browser that has opened a link. A page of elsewhere could have led it here, to make
// its user work under the name of somebody else; so where that may be, the user is asked.
func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	if !r.URL.Query().Has("key") {
		s.stranger(w, r)
		return
	}
	if _, err := s.who(r); s.Pages != nil && (err == nil || s.ledHere(r)) {
		s.ask(w, r, answers.ErrConfirm)
		return
	}
	s.admit(w, r, r.URL.Query().Get("key"))
}

// ledHere tells whether a page of elsewhere may have opened a link. Browsers say where a request comes from to
// hosts that nobody on the way can read: over TLS, and on loopback.
func (s *Server) ledHere(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "none", "same-origin":
		return false
	case "":
		return !s.encrypted(r) && !onLoopback(r.Host)
	}
	return true
}

// onLoopback tells whether a name of a host, with or without a port, always means the machine itself.
func onLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	at, err := netip.ParseAddr(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || err == nil && at.Unmap().IsLoopback()
}

// admit admits the browser that shows the secret of a link.
func (s *Server) admit(w http.ResponseWriter, r *http.Request, secret string) {
	is, ok := s.open(secret)
	if !ok {
		s.Refuse(w, s.unknown(r, answers.ErrWho))
		return
	}
	s.setCookie(w, r, is.cookie, is.to)
}

// setCookie makes a browser keep a cookie, or drop it if it is "", and redirects the browser to a
// page. The address is relative to the request's, so that the prefix of a proxy does not matter; but a
// browser that asks where no cookie may be kept gets a link to where it may.
func (s *Server) setCookie(w http.ResponseWriter, r *http.Request, cookie, to string) {
	if cookie != "" && !s.keepsCookies(r.Host) {
		w.Header().Set("Location", s.scheme()+s.browserHost()+s.config.Prefix+s.link(cookie, to))
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	age := 30 * 24 * 3600
	if cookie == "" {
		age = -1
	}
	http.SetCookie(w, &http.Cookie{
		Name:     s.cookieName(),
		Value:    cookie,
		Path:     s.config.Prefix + "/",
		Secure:   s.encrypted(r),
		HttpOnly: true,
		SameSite: http.SameSiteStrictMode,
		MaxAge:   age,
	})
	w.Header().Set("Location", "."+to)
	w.WriteHeader(http.StatusSeeOther)
}

// encrypted tells whether a request came over TLS: to this server, or to a proxy that says so.
func (s *Server) encrypted(r *http.Request) bool {
	return r.TLS != nil || s.config.listed(peerOf(r)) && r.Header.Get("X-Forwarded-Proto") == "https"
}
