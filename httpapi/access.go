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

// Caller is who asks, and as what.
type Caller struct {
	Name string
	Role roles.Role

	// life ends when what lets the caller in is gone; nil is never.
	life context.Context
	// cookie is what a browser of the caller shows; "" if a proxy has let him in, which knows him itself.
	cookie string
}

// Machine is the credential of the machine: whoever can read it is the user as whom the server runs. It lets in nobody but those who
// come from this machine, or by a proxy on it.
type Machine struct {
	// Secret is the credential. Caller is who has it.
	Secret string
	Caller Caller
}

// Tokens are the tokens of an installation, as [jet.Store] knows them.
type Tokens interface {
	TokenKeeper() *definitions.TokenKeeper
}

// link is what opens the door for a browser, once.
type link struct{ secret, cookie string }

// maxLinks is how many links may wait to be opened.
const maxLinks = 16

// link makes a secret by which a browser gets a cookie.
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

// open takes the secret of a link and returns its cookie; "" if it is none, or was taken before.
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

// who finds out who asks.
func (s *Server) who(r *http.Request) (Caller, error) {
	peer := peerOf(r)
	if name, said, err := s.config.user(peer, r.Header); said || err != nil {
		return Caller{Name: name, Role: s.config.UserRole}, err
	}
	if text := r.Header.Get("Authorization"); text != "" {
		if kind, secret, _ := strings.Cut(text, " "); strings.EqualFold(kind, "Bearer") {
			return s.bearer(r, secret)
		}
		return Caller{}, api.ErrWho // a cookie beside a wrong token does not make up for it
	}
	if c, err := r.Cookie(s.cookieName()); err == nil {
		return s.keys.find(c.Value, peer, s.now())
	}
	return Caller{}, api.ErrWho
}

// bearer is who has a token. One that is not known may have been made this moment, by the command line or at another server: it is looked for once more.
func (s *Server) bearer(r *http.Request, secret string) (Caller, error) {
	secret = strings.TrimSpace(secret)
	cookie := definitions.TokenCookie(secret)
	if !s.keys.known(cookie) && definitions.LikeToken(secret) {
		s.lookAgain(r.Context())
	}
	return s.keys.find(cookie, peerOf(r), s.now())
}

// cookieName has the port in it: browsers send a cookie to all ports of a host.
func (s *Server) cookieName() string { return "millrace_" + s.port }

// Link is an address that lets a browser of this machine in, once.
func (s *Server) Link() string { return s.URL() + s.link(definitions.TokenCookie(s.Machine.Secret)) }

// Browser tells whether the caller is let in by what his browser shows, which he can have it forget.
func (c *Caller) Browser() bool { return c.cookie != "" }

// enter lets a browser in whose user has typed a token, and leads him to where he was going. Other posts want a link for a browser.
func (s *Server) enter(w http.ResponseWriter, r *http.Request) {
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/x-www-form-urlencoded" {
		s.known(s.invite).ServeHTTP(w, r)
		return
	}
	if err := r.ParseForm(); err != nil {
		s.refuse(w, wrong("the form cannot be read"))
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

// stranger refuses a browser that nothing lets in: with a page, on which a token can be entered, if there are pages.
func (s *Server) stranger(w http.ResponseWriter, r *http.Request) {
	if s.Pages == nil {
		s.refuse(w, api.ErrWho)
		return
	}
	s.Pages(w, r, func() (Caller, error) { return Caller{}, api.ErrWho })
}

// leave has a browser forget what lets it in. A token itself stays one.
func (s *Server) leave(w http.ResponseWriter, r *http.Request) { s.setCookie(w, r, "", "./") }

// invite makes a link for a browser of who asks.
func (s *Server) invite(w http.ResponseWriter, r *http.Request, c Caller) {
	if c.cookie == "" {
		s.refuse(w, api.ErrRole)
		return
	}
	scheme := "http://"
	if s.encrypted(r) {
		scheme = "https://"
	}
	s.sendJSON(w, r, map[string]string{"url": scheme + r.Host + s.config.Prefix + s.link(c.cookie)})
}

// login lets a browser in that has opened a link.
func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	if !r.URL.Query().Has("key") {
		s.stranger(w, r)
		return
	}
	cookie := s.open(r.URL.Query().Get("key"))
	if cookie == "" {
		s.refuse(w, api.ErrWho)
		return
	}
	s.setCookie(w, r, cookie, "./")
}

// setCookie has a browser show a cookie from now on, or none if it is "", and leads it to a path beside that of the request: whatever a proxy has put before that.
func (s *Server) setCookie(w http.ResponseWriter, r *http.Request, cookie, to string) {
	age := 30 * 24 * 3600
	if cookie == "" {
		age = -1
	}
	http.SetCookie(w, &http.Cookie{
		Name: s.cookieName(), Value: cookie, Path: s.config.Prefix + "/", Secure: s.encrypted(r), HttpOnly: true, SameSite: http.SameSiteStrictMode, MaxAge: age,
	})
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}

// encrypted tells whether a request has come over TLS: here, or to a proxy that says so.
func (s *Server) encrypted(r *http.Request) bool {
	return r.TLS != nil || s.config.listed(peerOf(r)) && r.Header.Get("X-Forwarded-Proto") == "https"
}
