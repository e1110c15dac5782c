package httpapi

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"millrace/api"
	"millrace/jet/definitions"
	"millrace/jet/roles"
)

// Caller is the sender of a request, with its role.
type Caller struct {
	Name string
	Role roles.Role

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

// link is a secret that admits a browser, once.
type link struct{ secret, cookie string }

// maxLinks is how many links may wait to be opened.
const maxLinks = 16

// link makes a secret for which a browser gets a cookie.
func (s *Server) link(cookie string) string {
	secret := rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.links = append(s.links, link{secret, cookie})
	if more := len(s.links) - maxLinks; more > 0 {
		s.links = s.links[more:]
	}
	return "/login?key=" + url.QueryEscape(secret)
}

// open takes the secret of a link and returns its cookie; "" if there is no such link, or it was
// used before.
func (s *Server) open(secret string) (cookie string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, is := range s.links {
		if same(is.secret, secret) {
			s.links = append(s.links[:i], s.links[i+1:]...)
			return is.cookie
		}
	}
	return ""
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
		return Caller{}, api.ErrWho // a cookie does not make up for a wrong token
	}
	if c, err := r.Cookie(s.cookieName()); err == nil {
		return s.keys.find(c.Value, peer, s.now())
	}
	return Caller{}, api.ErrWho
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
func (s *Server) cookieName() string { return "millrace_" + s.port }

// Link returns an address that admits a browser of this machine, once.
func (s *Server) Link() string { return s.URL() + s.link(definitions.TokenCookie(s.Machine.Secret)) }

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
	cookie := definitions.TokenCookie(strings.TrimSpace(r.PostForm.Get("token")))
	if _, err := s.bearer(r, r.PostForm.Get("token")); err != nil {
		s.stranger(w, r)
		return
	}
	to := r.PostForm.Get("to")
	if is, err := url.Parse(to); err != nil || is.IsAbs() || is.Host != "" || !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.Contains(to, "..") || strings.ContainsRune(to, '\\') {
		to = "/"
	}
	s.setCookie(w, r, cookie, "."+to)
}

// stranger refuses a browser without a valid credential: with a page for entering a token, if there
// are pages.
func (s *Server) stranger(w http.ResponseWriter, r *http.Request) {
	if s.Pages == nil {
		s.Refuse(w, api.ErrWho)
		return
	}
	s.Pages(w, r, func() (Caller, error) { return Caller{}, api.ErrWho })
}

// leave makes a browser drop its cookie. The token stays valid.
func (s *Server) leave(w http.ResponseWriter, r *http.Request) { s.setCookie(w, r, "", "./") }

// invite makes a link for a browser of the caller.
func (s *Server) invite(w http.ResponseWriter, r *http.Request, c Caller) {
	if c.cookie == "" {
		s.Refuse(w, api.ErrRole)
		return
	}
	scheme := "http://"
	if s.encrypted(r) {
		scheme = "https://"
	}
	s.sendJSON(w, r, map[string]string{"url": scheme + r.Host + s.config.Prefix + s.link(c.cookie)})
}

// login admits a browser that has opened a link.
func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	if !r.URL.Query().Has("key") {
		s.stranger(w, r)
		return
	}
	cookie := s.open(r.URL.Query().Get("key"))
	if cookie == "" {
		s.Refuse(w, api.ErrWho)
		return
	}
	s.setCookie(w, r, cookie, "./")
}

// setCookie makes a browser keep a cookie, or drop it if it is "", and redirects the browser to a
// path relative to the request's, so that the prefix of a proxy does not matter.
func (s *Server) setCookie(w http.ResponseWriter, r *http.Request, cookie, to string) {
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
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}

// encrypted tells whether a request came over TLS: to this server, or to a proxy that says so.
func (s *Server) encrypted(r *http.Request) bool {
	return r.TLS != nil || s.config.listed(peerOf(r)) && r.Header.Get("X-Forwarded-Proto") == "https"
}
