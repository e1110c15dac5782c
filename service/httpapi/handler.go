package httpapi

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"millrace/events/jet/rights"
	"millrace/service/answers"
	"millrace/task/value"
)

// handler returns the handler of the whole service.
func (s *Server) handler() http.Handler {
	all := operations()
	// Few ask for the document, and making it takes as long as the rest of a start.
	doc := sync.OnceValue(func() []byte {
		return value.Must(value.JSON(document(s.Version, all))) // it is made of types, which tests read
	})
	mux := http.NewServeMux()
	if s.Pages == nil {
		mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { s.Send(w, r, "text/plain; charset=utf-8", []byte(index)) })
	}
	mux.HandleFunc("GET /login", s.login)
	mux.HandleFunc("POST /login", s.enter)
	mux.HandleFunc("POST /logout", s.leave)
	mux.Handle("GET /openapi.json", s.known(func(w http.ResponseWriter, r *http.Request, _ Caller) error {
		s.Send(w, r, "application/openapi+json", doc())
		return nil
	}))
	if s.Tools != nil {
		mux.Handle("/mcp", s.known(func(w http.ResponseWriter, r *http.Request, c Caller) error {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return unread(err)
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // as in do
			s.Tools(w, r, c)
			return nil
		}))
	}
	for i := range all {
		o := &all[i]
		if o.verb == rights.MonitorPing {
			for _, pattern := range []string{"GET /ping/{name}", "POST /ping/{name}", "GET /ping/{name}/{word}", "POST /ping/{name}/{word}"} {
				mux.Handle(pattern, s.known(func(w http.ResponseWriter, r *http.Request, c Caller) error { return s.ping(w, r, c, &o.endpoint) }))
			}
		}
		mux.Handle(o.method+" "+prefix+o.path, s.known(func(w http.ResponseWriter, r *http.Request, c Caller) error { return s.do(w, r, c, o) }))
	}
	for i := range carriers {
		k := &carriers[i]
		mux.Handle(k.method+" "+prefix+k.path, s.known(func(w http.ResponseWriter, r *http.Request, c Caller) error {
			if !c.Role.May(k.verb) {
				return denied(c.Role, k.verb)
			}
			return k.serve(s, w, r, c)
		}))
	}
	if s.config.Hooks != "" {
		mux.HandleFunc("POST /hooks/{job}", func(w http.ResponseWriter, r *http.Request) {
			if err := s.hook(w, r); err != nil {
				s.Refuse(w, err)
			}
		})
	}
	return s.below(s.counted(mux, all, s.guarded(mux)))
}

// below removes the prefix from a path. A proxy may have done so already.
func (s *Server) below(next http.Handler) http.Handler {
	if s.config.Prefix == "" {
		return next
	}
	bare := http.StripPrefix(s.config.Prefix, next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == s.config.Prefix:
			http.Redirect(w, r, s.config.Prefix+"/", http.StatusMovedPermanently)
		case strings.HasPrefix(r.URL.Path, s.config.Prefix+"/"):
			bare.ServeHTTP(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// index is the answer at the service's own address.
const index = `Millrace: the service over HTTP.

/openapi.json   all that can be asked for
/api/v1/tasks   the tasks, to begin with
`

// denied says which role a caller has, and the least that may ask for it.
func denied(has rights.Role, v rights.Verb) error {
	needs := rights.Operator
	for _, r := range []rights.Role{rights.Viewer, rights.Submitter} {
		if r.May(v) {
			needs = r
		}
	}
	return fmt.Errorf("%w: it is %s, and this takes %s", answers.ErrRole, has, needs)
}

// do answers a request through the desk.
func (s *Server) do(w http.ResponseWriter, r *http.Request, c Caller, o *operation) error {
	own := !c.Role.May(o.verb) // it may ask of its own tasks, at most
	if own && !c.Role.May(o.verb.Own()) {
		return denied(c.Role, o.verb)
	}
	body, err := o.read(r)
	if err == nil && own {
		err = s.Desk.Owns(r.Context(), c.Name, o.verb.Own(), body)
	}
	if err != nil {
		return err
	}
	// The request has been read: from here on only the answer takes time.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // it cannot fail for a connection
	// HEAD asks for the present answer.
	if r.Method == http.MethodGet && Accepts(r.Header.Get("Accept"), "text/event-stream") {
		if o.endpoint.Once {
			return answers.ErrOnce
		}
		return s.follow(w, r, c, o, body)
	}
	answer, err := s.Desk.Answer(r.Context(), c.Name, &o.endpoint, body)
	if err != nil {
		return err
	}
	return s.sendJSON(w, r, answer)
}

// known wraps a handler for authenticated callers. Its error refuses the request.
func (s *Server) known(handle func(w http.ResponseWriter, r *http.Request, c Caller) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := s.caller(r)
		if err == nil {
			err = handle(w, r, c)
		}
		if err != nil {
			s.Refuse(w, err)
		}
	})
}

// policy are the headers of all answers: browsers must not show them in a frame, run them or guess
// their type, and nothing in between may keep them.
var policy = map[string]string{
	"Content-Security-Policy":      "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	"X-Frame-Options":              "DENY",
	"X-Content-Type-Options":       "nosniff",
	"Referrer-Policy":              "no-referrer",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cache-Control":                "no-store",
}

// guarded refuses requests from pages of other origins, and requests that are too large.
func (s *Server) guarded(mux *http.ServeMux) http.Handler {
	origins := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range policy {
			w.Header().Set(name, value)
		}
		handler, pattern := mux.Handler(r)
		largest := largestBody(pattern)
		if s.Largest != nil {
			largest = max(largest, s.Largest(r))
		}
		r.Body = http.MaxBytesReader(w, r.Body, largest)
		switch {
		case !s.config.admits(peerOf(r)):
			s.Refuse(w, answers.ErrPlain)
		case !s.ours(r.Host):
			s.Refuse(w, answers.ErrHost)
		case origins.Check(r) != nil, r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Header.Get("Sec-Fetch-Mode") != "navigate":
			s.Refuse(w, answers.ErrOrigin)
		// The mux would redirect it: DELETE /jobs//x, with a missing name, to /jobs/x.
		case ofPrograms(r.URL.Path) && !whole(r.URL.EscapedPath()):
			s.Refuse(w, fmt.Errorf("%w: the path has a part that is empty or made of dots; is something missing?", answers.ErrNothing))
		case pattern == "" && s.Pages != nil && !ofPrograms(r.URL.Path):
			s.Pages(w, r, func() (Caller, error) { return s.caller(r) })
		case pattern == "":
			s.refuseUnrouted(w, r, handler)
		default:
			mux.ServeHTTP(w, r)
		}
	})
}

// ofPrograms tells whether a path is for programs, not for pages.
func ofPrograms(path string) bool {
	return path == "/login" || path == "/logout" || path == "/openapi.json" || path == "/mcp" || path == "/api" || strings.HasPrefix(path, "/api/") || strings.HasPrefix(path, "/hooks/") || strings.HasPrefix(path, "/ping/")
}

// whole tells whether no part of a path is empty, except the last one.
func whole(p string) bool {
	clean := path.Clean(p)
	return p == clean || p == clean+"/"
}

// refuseUnrouted answers 404 for an unknown path, and 405 for a known path with another method.
func (s *Server) refuseUnrouted(w http.ResponseWriter, r *http.Request, handler http.Handler) {
	probe := &headers{header: http.Header{}}
	handler.ServeHTTP(probe, r)
	if allow := probe.header.Get("Allow"); allow != "" {
		w.Header().Set("Allow", allow)
		s.Refuse(w, answers.ErrMethod)
		return
	}
	s.Refuse(w, answers.ErrNothing)
}

// headers is a response that keeps only the headers.
type headers struct{ header http.Header }

func (h *headers) Header() http.Header         { return h.header }
func (h *headers) Write(b []byte) (int, error) { return len(b), nil }
func (h *headers) WriteHeader(int)             {}

// Accepts tells whether a header accepts a media type or an encoding by name.
func Accepts(header, kind string) bool {
	for part := range strings.SplitSeq(header, ",") {
		name, weight, _ := strings.Cut(strings.TrimSpace(part), ";")
		if strings.EqualFold(strings.TrimSpace(name), kind) && strings.ReplaceAll(weight, " ", "") != "q=0" {
			return true
		}
	}
	return false
}
