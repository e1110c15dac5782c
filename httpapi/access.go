package httpapi

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"millrace/api"
	"millrace/jet"
)

// Caller is who asks, and as what.
type Caller struct {
	Name string
	Role jet.Role
}

// Machine is the credential of the machine: whoever can read it is the user as whom the server runs.
type Machine struct {
	// Secret is the credential. Caller is who has it.
	Secret string
	Caller Caller

	mu    sync.Mutex
	links []string // guarded by mu; the secrets of links that nobody has opened, the oldest first
}

// maxLinks is how many links may wait to be opened.
const maxLinks = 16

// link makes a secret that opens the door for a browser, once.
func (m *Machine) link() string {
	secret := rand.Text()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.links = append(m.links, secret)
	if more := len(m.links) - maxLinks; more > 0 {
		m.links = m.links[more:]
	}
	return secret
}

// open takes the secret of a link; false if it is none, or was taken before.
func (m *Machine) open(secret string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, is := range m.links {
		if same(is, secret) {
			m.links = append(m.links[:i], m.links[i+1:]...)
			return true
		}
	}
	return false
}

// cookie is what a browser shows from then on. It follows from the credential, so that it outlives this process and ends with the
// credential, and does not tell it.
func (m *Machine) cookie() string {
	sum := hmac.New(sha256.New, []byte(m.Secret))
	sum.Write([]byte("millrace cookie 1"))
	return hex.EncodeToString(sum.Sum(nil))
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// who finds out who asks.
func (s *Server) who(r *http.Request) (Caller, error) {
	if text := r.Header.Get("Authorization"); text != "" {
		kind, secret, _ := strings.Cut(text, " ")
		if strings.EqualFold(kind, "Bearer") && same(strings.TrimSpace(secret), s.Machine.Secret) {
			return s.Machine.Caller, nil
		}
		return Caller{}, api.ErrWho // a cookie beside a wrong token does not make up for it
	}
	if c, err := r.Cookie(s.cookieName()); err == nil && same(c.Value, s.Machine.cookie()) {
		return s.Machine.Caller, nil
	}
	return Caller{}, api.ErrWho
}

// cookieName has the port in it: browsers send a cookie to all ports of a host.
func (s *Server) cookieName() string { return "millrace_" + s.port }

// Link is an address that lets a browser of this machine in, once.
func (s *Server) Link() string { return s.URL() + "/login?key=" + url.QueryEscape(s.Machine.link()) }

// login lets a browser in that has opened a link.
func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	if !s.Machine.open(r.URL.Query().Get("key")) {
		s.refuse(w, api.ErrWho)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: s.cookieName(), Value: s.Machine.cookie(), Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, MaxAge: 30 * 24 * 3600})
	w.Header().Set("Location", "./") // whatever stands before the path, where a proxy has put something there
	w.WriteHeader(http.StatusSeeOther)
}

// ours tells whether the service answers under a name. A page whose name leads to this machine (DNS rebinding) asks under
// its own.
func (s *Server) ours(host string) bool {
	for _, name := range s.hosts {
		if strings.EqualFold(host, name) {
			return true
		}
	}
	return false
}
