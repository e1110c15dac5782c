package httpapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace/events/jet/rights"
	"millrace/service/answers"
)

// The fields of a form are those of a request.
func TestForm(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		verb   rights.Verb
		fields url.Values
		want   string // "" if it is refused
	}{
		{rights.TaskCancel, url.Values{"id": {"A"}, "reason": {""}}, `{"id":"A"}`},
		{rights.TaskCancel, url.Values{"id": {"A"}, "who": {"B"}}, ""},
		{rights.TaskEdit, url.Values{"id": {"A"}, "priority": {"8"}}, `{"id":"A","priority":8}`},
		{rights.TaskEdit, url.Values{"priority": {"high"}}, ""},
		{rights.TaskSignal, url.Values{"data": {`{"a":1}`}}, `{"data":{"a":1}}`},
		{rights.TaskSignal, url.Values{"data": {`{`}}, ""},
		{rights.TaskCopy, url.Values{"task": {`{"params":{}}`}}, `{"task":{"params":{}}}`},
		{rights.QueueLimit, url.Values{"queue": {"low"}, "running": {"4"}, "waiting": {""}, "rate": {`{"limit":1}`}}, `{"queue":"low","rate":{"limit":1},"running":4}`},
		{rights.QueuePause, url.Values{"queue": {"low"}, "for": {"1h"}}, `{"for":"1h","queue":"low"}`},
		{"no.verb", url.Values{"id": {"A"}}, ""},
	} {
		got, err := Form(c.verb, c.fields)
		if string(got) != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s with %v is %s, %v; want %s", c.verb, c.fields, got, err, c.want)
		}
	}
}

// Pages answer paths that are not for programs; both are guarded alike, and pages learn when a
// caller is not authenticated.
func TestPagesBeside(t *testing.T) {
	t.Parallel()
	s := open(t, func(s *Server) {
		s.Pages = func(w http.ResponseWriter, r *http.Request, who func() (Caller, error)) {
			c, err := who()
			if err != nil {
				w.WriteHeader(http.StatusTeapot)
			}
			s.wrote(w.Write([]byte(r.Method + " " + r.URL.Path + " " + c.Name)))
		}
	})
	for _, path := range []string{"/", "/tasks", "/login/x"} {
		if got := s.want(200, "GET", path, "", nil); string(got.body) != "GET "+path+" ada" {
			t.Errorf("%s is answered with %s", path, got.body)
		}
	}
	s.want(http.StatusTeapot, "POST", "/do/task.cancel", "a=b", nil, "Authorization", "")
	s.refused(404, "nothing-here", "GET", "/api/v1/nothing", "")
	s.refused(404, "nothing-here", "GET", "/api/", "")
	s.refused(405, "method", "POST", "/openapi.json", "")
	s.refused(421, "host", "GET", "/", "", "Host", "evil.example")
	s.refused(403, "origin", "POST", "/do/task.cancel", "a=b", "Origin", "http://evil.example")

	link, browser := s.opens(s.Link())
	got := s.want(303, "GET", link, "", nil, browser...)
	if to := got.header.Get("Location"); to != "./" {
		t.Errorf("a link leads to %s", to)
	}
}

// The query of a list is that of the command line and of the pages.
func TestQueryOfTasks(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	var made struct{ Seq uint64 }
	s.want(200, "POST", "/api/v1/tasks", `{"spec":{"run":{"argv":["echo","hello"]}},"labels":{"a":"b"}}`, &made)
	at := "&at_least=" + strconv.FormatUint(made.Seq, 10)
	for query, want := range map[string]int{"hello label:a=b": 1, "label:a=c": 0, "state:active": 1, "state:ended": 0, "": 1} {
		var page struct{ Tasks []struct{ ID string } }
		if s.want(200, "GET", "/api/v1/tasks?query="+url.QueryEscape(query)+at, "", &page); len(page.Tasks) != want {
			t.Errorf("%q chooses %d tasks, want %d", query, len(page.Tasks), want)
		}
	}
	s.refused(400, "bad-request", "GET", "/api/v1/tasks?query=sate%3Aerror", "")
	s.refused(400, "bad-request", "GET", "/api/v1/tasks?query=job%3Aa&job=b", "")
}

// A follower always gets an answer, however what it follows ends: even if that is over before it
// began.
func TestFollowersAreAnswered(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	for name, c := range map[string]struct {
		make func(context.CancelFunc) error
		want int
	}{
		"the request ends":  {func(end context.CancelFunc) error { end(); return context.Canceled }, http.StatusGatewayTimeout},
		"it fails":          {func(context.CancelFunc) error { return answers.ErrNothing }, http.StatusNotFound},
		"it takes too long": {func(context.CancelFunc) error { return context.DeadlineExceeded }, http.StatusGatewayTimeout},
		"it is over":        {func(context.CancelFunc) error { return nil }, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, end := context.WithCancel(t.Context())
			defer end()
			w := follower{httptest.NewRecorder()}
			err := s.serveFollower(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil), Caller{Name: "x"}, "a page", func(context.Context, *stream, uint64) error { return c.make(end) })
			if err != nil {
				s.Refuse(w, err)
			}
			if w.Code != c.want || w.Body.Len() == 0 || w.Header().Get("Content-Type") == "" {
				t.Errorf("he is answered with %d, %v, %q", w.Code, w.Header(), w.Body)
			}
		})
	}
}

// follower is a response that has deadlines.
type follower struct{ *httptest.ResponseRecorder }

func (follower) SetWriteDeadline(time.Time) error { return nil }

// A browser is let in by a token that is typed, and can be had to forget it.
func TestEnter(t *testing.T) {
	t.Parallel()
	s := open(t, func(s *Server) {
		s.Pages = func(w http.ResponseWriter, _ *http.Request, who func() (Caller, error)) {
			if _, err := who(); err != nil {
				w.WriteHeader(http.StatusUnauthorized)
			}
		}
	})
	shop := s.token("shop", rights.Viewer, time.Time{}, false)
	s.comes(200, shop)
	form := []string{"Authorization", "", "Host", s.browserHost(), "Content-Type", "application/x-www-form-urlencoded"}
	type entry struct{ token, to, leads string }
	for _, e := range []entry{
		{strings.TrimPrefix(shop, "Bearer "), "/tasks?q=a", "./tasks?q=a"}, {" " + strings.TrimPrefix(shop, "Bearer ") + "\n", "", "./"}, {secret, "//evil.example", "./"},
		{secret, "https://evil.example", "./"}, {secret, "/../x", "./"}, {secret, "/\\evil.example", "./"}, {"nothing", "/tasks", ""}, {"", "", ""},
	} {
		body := url.Values{"token": {e.token}, "to": {e.to}}.Encode()
		if e.leads == "" {
			if got := s.want(401, "POST", "/login", body, nil, form...); got.header.Get("Set-Cookie") != "" {
				t.Errorf("%+v gets a cookie", e)
			}
			continue
		}
		got := s.want(303, "POST", "/login", body, nil, form...)
		cookie := got.header.Get("Set-Cookie")
		if to := got.header.Get("Location"); to != e.leads || !strings.Contains(cookie, "HttpOnly") || !strings.Contains(cookie, "SameSite=Strict") || strings.Contains(cookie, e.token) && e.token != "" {
			t.Errorf("%+v leads to %s with %s", e, to, cookie)
		}
		s.want(200, "GET", "/api/v1/health", "", nil, "Authorization", "", "Host", s.browserHost(), "Cookie", strings.Split(cookie, ";")[0])
	}
	s.refused(403, "origin", "POST", "/login", "token="+secret, append(form, "Origin", "http://evil.example")...)
	s.want(401, "GET", "/login", "", nil, "Authorization", "")
	got := s.want(303, "POST", "/logout", "", nil)
	if cookie := got.header.Get("Set-Cookie"); !strings.Contains(cookie, "Max-Age=0") || got.header.Get("Location") != "./" {
		t.Errorf("who leaves gets %s", cookie)
	}
	s.want(405, "GET", "/logout", "", nil)
	s.refused(403, "origin", "POST", "/logout", "a=b", "Origin", "http://evil.example")
}
