package httpapi

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"millrace/jet"
)

// The fields of a form are those of a request.
func TestForm(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		verb   jet.Verb
		fields url.Values
		want   string // "" if it is refused
	}{
		{jet.TaskCancel, url.Values{"id": {"A"}, "reason": {""}}, `{"id":"A"}`},
		{jet.TaskCancel, url.Values{"id": {"A"}, "who": {"B"}}, ""},
		{jet.TaskEdit, url.Values{"id": {"A"}, "priority": {"8"}}, `{"id":"A","priority":8}`},
		{jet.TaskEdit, url.Values{"priority": {"high"}}, ""},
		{jet.TaskSignal, url.Values{"data": {`{"a":1}`}}, `{"data":{"a":1}}`},
		{jet.TaskSignal, url.Values{"data": {`{`}}, ""},
		{jet.TaskCopy, url.Values{"task": {`{"params":{}}`}}, `{"task":{"params":{}}}`},
		{jet.QueueLimit, url.Values{"queue": {"low"}, "running": {"4"}, "waiting": {""}, "rate": {`{"limit":1}`}}, `{"queue":"low","rate":{"limit":1},"running":4}`},
		{jet.QueuePause, url.Values{"queue": {"low"}, "for": {"1h"}}, `{"for":"1h","queue":"low"}`},
		{"no.verb", url.Values{"id": {"A"}}, ""},
	} {
		got, err := Form(c.verb, c.fields)
		if string(got) != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s with %v is %s, %v; want %s", c.verb, c.fields, got, err, c.want)
		}
	}
}

// Pages are asked for what programs are not; both are guarded in the same way, and of strangers pages hear that they are such.
func TestPagesBeside(t *testing.T) {
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

	got := s.want(303, "GET", strings.TrimPrefix(s.Link(), s.URL()), "", nil, "Authorization", "")
	if to := got.header.Get("Location"); to != "./" {
		t.Errorf("a link leads to %s", to)
	}
}

// The query of a list is that of the command line and of the pages.
func TestQueryOfTasks(t *testing.T) {
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
