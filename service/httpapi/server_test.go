package httpapi

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace/events/jet/rights"
	"millrace/service/answers"
	"millrace/service/client"
	"millrace/task"
)

// Every verb of the service has a route over HTTP, and what a path names is a field of the request.
func TestRoutes(t *testing.T) {
	t.Parallel()
	reached := map[string]bool{}
	for _, o := range operations() {
		for _, name := range o.named {
			if o.fields[name].is == nil {
				t.Errorf("%s %s: %s has no field %s", o.method, o.path, o.verb, name)
			}
		}
		reached[string(o.verb)] = true
	}
	for _, e := range answers.Endpoints() {
		if !reached[string(e.Verb)] && e.Verb.Access() != rights.Owning && e.Verb.Access() != rights.Answering { // the route of the whole verb leads there
			t.Errorf("%s cannot be asked for over HTTP: give its entry a route", e.Verb)
		}
	}
}

// Which callers are admitted, and how.
func TestAccess(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	s.want(200, "GET", "/api/v1/tasks", "", nil)
	s.refused(401, "who", "GET", "/api/v1/tasks", "", "Authorization", "")
	s.refused(401, "who", "GET", "/openapi.json", "", "Authorization", "")
	s.refused(401, "who", "GET", "/api/v1/tasks", "", "Authorization", "Bearer other")
	s.refused(401, "who", "GET", "/api/v1/tasks", "", "Authorization", "Basic "+secret)
	s.refused(401, "who", "GET", "/api/v1/tasks", "", "Authorization", "", "Cookie", s.cookieName()+"="+secret)

	link, browser := s.opens(s.Link())
	got := s.want(303, "GET", link, "", nil, browser...)
	cookies, err := http.ParseSetCookie(got.header.Get("Set-Cookie"))
	if err != nil || !cookies.HttpOnly || cookies.SameSite != http.SameSiteStrictMode || !strings.HasSuffix(cookies.Name, s.port) || strings.Contains(cookies.Value, secret) {
		t.Errorf("the cookie is %v, %v", cookies, err)
	}
	cookie := cookies.Name + "=" + cookies.Value
	browser = append(browser, "Cookie", cookie)
	s.want(200, "GET", "/api/v1/tasks", "", nil, browser...)
	s.refused(401, "who", "GET", link, "", "Authorization", "") // it opens once
	s.refused(401, "who", "GET", "/login?key=", "", "Authorization", "")
	s.refused(401, "who", "GET", "/api/v1/tasks", "", "Authorization", "Bearer other", "Host", s.browserHost(), "Cookie", cookie)
	var made struct{ URL string }
	s.want(200, "POST", "/login", "", &made)
	s.refused(401, "who", "POST", "/login", "", "Authorization", "")
	another, header := s.opens(made.URL)
	s.want(303, "GET", another, "", nil, header...)

	// Pages of others: by their names that lead here, or from a browser that is let in.
	s.refused(421, "host", "GET", "/api/v1/tasks", "", "Host", "evil.example:"+s.port)
	s.refused(421, "host", "GET", "/api/v1/tasks", "", "Host", "127.0.0.1")
	s.want(200, "GET", "/api/v1/tasks", "", nil, "Host", "localhost:"+s.port)
	for _, from := range [][]string{{"Origin", "http://evil.example"}, {"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}} {
		s.refused(403, "origin", "POST", "/api/v1/tasks", `{"job":"a"}`, append(from, browser...)...)
	}
	s.refused(404, "no-job", "POST", "/api/v1/tasks", `{"job":"a"}`, append(browser, "Origin", "http://"+s.browserHost(), "Sec-Fetch-Site", "same-origin")...)
	s.refused(403, "origin", "GET", "/api/v1/tasks", "", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors")
	s.want(200, "GET", "/api/v1/tasks", "", nil, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate")
	got = s.send("GET", "/api/v1/tasks", "", "Origin", "http://evil.example")
	if allowed := got.header.Get("Access-Control-Allow-Origin"); allowed != "" {
		t.Errorf("pages of %q may read", allowed)
	}
	s.refused(405, "method", "OPTIONS", "/api/v1/tasks", "")
	for name := range policy {
		if got.header.Get(name) == "" {
			t.Errorf("%s is not set", name)
		}
	}
	if got := got.header.Get("Content-Security-Policy"); !strings.Contains(got, "frame-ancestors 'none'") {
		t.Errorf("the pages may be framed: %s", got)
	}
}

// A browser sends a cookie to all ports of a host, and on this machine others may listen at them. So
// cookies belong to a host that only who opens a link or enters a token hears of.
func TestCookiesHaveAHostOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	link, own := s.opens(s.Link())
	cookie, _, _ := strings.Cut(s.want(303, "GET", link, "", nil, own...).header.Get("Set-Cookie"), ";")
	s.want(200, "GET", "/api/v1/tasks", "", nil, append(own, "Cookie", cookie)...)
	form := url.Values{"token": {secret}, "to": {"/tasks"}}.Encode()
	for _, host := range []string{"127.0.0.1:" + s.port, "localhost:" + s.port, "[::1]:" + s.port} {
		s.refused(401, "who", "GET", "/api/v1/tasks", "", "Authorization", "", "Host", host, "Cookie", cookie)
		got := s.want(303, "POST", "/login", form, nil, "Authorization", "", "Host", host, "Content-Type", "application/x-www-form-urlencoded")
		to := got.header.Get("Location")
		if got.header.Get("Set-Cookie") != "" || !strings.HasPrefix(to, "http://"+s.browserHost()+"/login?key=") {
			t.Fatalf("at %s a browser gets %s and goes to %s", host, got.header.Get("Set-Cookie"), to)
		}
		path, header := s.opens(to)
		got = s.want(303, "GET", path, "", nil, header...)
		if got.header.Get("Set-Cookie") == "" || got.header.Get("Location") != "./tasks" {
			t.Errorf("the link gives %s and leads to %s", got.header.Get("Set-Cookie"), got.header.Get("Location"))
		}
		if got := s.send("GET", "/login", "", "Authorization", "", "Host", host); strings.Contains(string(got.body)+got.header.Get("Location"), s.browserHost()) {
			t.Error("a stranger hears of the host")
		}
	}
	// Names of loopback are everybody's, whoever gives them.
	s.config.Names = []string{"LOCALHOST", "millrace.localhost", "127.0.0.2", "::1"}
	for _, host := range []string{"localhost:" + s.port, "localhost", "Millrace.localhost:" + s.port, "127.0.0.2:" + s.port, "[::1]:" + s.port} {
		s.refused(401, "who", "GET", "/api/v1/tasks", "", "Authorization", "", "Host", host, "Cookie", cookie)
		if got := s.send("POST", "/login", form, "Authorization", "", "Host", host, "Content-Type", "application/x-www-form-urlencoded"); got.header.Get("Set-Cookie") != "" {
			t.Errorf("at %s a browser gets %s", host, got.header.Get("Set-Cookie"))
		}
	}
	other := open(t, func(s *Server) { s.Machine.Secret = "ANOTHER" })
	if name, _, _ := strings.Cut(other.browserHost(), ":"); strings.HasPrefix(s.browserHost(), name) {
		t.Errorf("two servers have the host %s", name)
	}
}

// A link that a page of elsewhere opens, or that would change who a browser is, asks first.
func TestLinkAsks(t *testing.T) {
	t.Parallel()
	s := open(t, func(s *Server) {
		s.Pages = func(w http.ResponseWriter, r *http.Request, who func() (Caller, error)) {
			_, err := who()
			w.WriteHeader(answers.ProblemOf(err).Status)
			_, _ = w.Write([]byte(answers.ProblemOf(err).Type))
		}
	})
	link, own := s.opens(s.Link())
	confirm := func(path string, header ...string) {
		t.Helper()
		if got := s.want(403, "GET", path, "", nil, header...); !strings.Contains(string(got.body), "confirm") || got.header.Get("Set-Cookie") != "" {
			t.Errorf("%s is answered with %s", path, got.body)
		}
	}
	confirm(link, append(own, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate")...)
	confirm(link, append(own, "Sec-Fetch-Site", "same-site")...) // another port, or a host beside this one
	// Over plain HTTP, which only a proxy speaks beyond loopback, browsers do not say where they come from.
	s.config.Names = []string{"millrace.example"}
	confirm(link, "Authorization", "", "Host", "millrace.example")
	cookie, _, _ := strings.Cut(s.want(303, "GET", link, "", nil, append(own, "Sec-Fetch-Site", "none")...).header.Get("Set-Cookie"), ";")
	another, _ := s.opens(s.Link())
	confirm(another, append(own, "Cookie", cookie)...)
	u, err := url.Parse(another)
	if err != nil {
		t.Fatal(err)
	}
	form := append(own, "Content-Type", "application/x-www-form-urlencoded")
	s.refused(403, "origin", "POST", "/login", u.RawQuery, append(form, "Origin", "http://evil.example")...)
	s.want(303, "POST", "/login", u.RawQuery, nil, form...)
}

func TestUnusual(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	s.refused(404, "nothing-here", "GET", "/api/v1/nothing", "")
	s.refused(404, "nothing-here", "GET", "/api/v2/tasks", "")
	for _, nothing := range []string{"/api/v1/tasks//cancel", "/api/v1//tasks", "/api/v1/tasks/./cancel", "/api/v1/x/../tasks/cancel"} { // a name that is missing leads nowhere else
		s.refused(404, "nothing-here", "POST", nothing, `{"all":true}`)
	}
	for _, says := range [][3]string{ // in words of JSON, and which field
		{"POST", `{"spec":{"run":{"argv":"date"}}}`, `spec.run.argv is a string, want a list`}, {"POST", `{"spec":{"run":["date"]}}`, `spec.run is a list, want an object`}, {"POST", `{"priority":"high"}`, `priority is a string, want a whole number`}, {"POST", `{"delay":5}`, `delay is a number, want a string`},
		{"POST", `{"argv":["date"]}`, `there is no field \"argv\"`}, {"POST", `{"spec":`, `the JSON ends too early`}, {"GET", `?state=pending`, `there are after, approval, at, `},
	} {
		at, body := "/api/v1/tasks", says[1]
		if says[0] == "GET" {
			at, body = at+body, ""
		}
		if got := s.want(400, says[0], at, body, nil); !strings.Contains(string(got.body), says[2]) || strings.Contains(string(got.body), "Go struct") {
			t.Errorf("%s is refused with %s", says[1], got.body)
		}
	}
	s.refused(415, "media", "POST", "/api/v1/tasks", zipped(t, `{"job":"a"}`), "Content-Encoding", "gzip")
	full := s.want(200, "GET", "/api/v1/tasks?limit=1&states=pending", "", nil)
	if head := s.want(200, "HEAD", "/api/v1/tasks?limit=1&states=pending", "", nil); head.header.Get("ETag") != full.header.Get("ETag") || len(head.body) > 0 {
		t.Errorf("HEAD is answered with %v", head)
	}
	s.refused(405, "method", "DELETE", "/api/v1/tasks", "")
	if allow := s.send("DELETE", "/api/v1/tasks", "").header.Get("Allow"); !strings.Contains(allow, "POST") {
		t.Errorf("allowed is %q", allow)
	}
	s.refused(415, "media", "POST", "/api/v1/tasks", `{"job":"a"}`, "Content-Type", "text/plain")
	s.refused(413, "too-large", "POST", "/api/v1/tasks", `{"job":"`+strings.Repeat("x", answers.LargestRequest)+`"}`)
	for _, body := range []string{"{", "[]", "null", `"a"`, `{"job":1}`, `{"jbo":"a"}`, `{"job":"a"}{}`} {
		s.refused(400, "bad-request", "POST", "/api/v1/tasks", body)
	}
	for _, query := range []string{"limit=x", "limit=0x10", "limit=1&limit=2", "dead=1", "nothing=1", "states=walking", "labels=a", "limit[a]=1", "since=noon", "%zz", "limit=1001", "cursor=x", "id=x"} {
		s.refused(400, "bad-request", "GET", "/api/v1/tasks?"+query, "")
	}
	s.refused(400, "bad-request", "GET", "/api/v1/tasks/no-id", "")
	s.refused(400, "bad-request", "PUT", "/api/v1/tasks/01ARZ3NDEKTSV4RRFFQ69G5FAV", `{"id":"01ARZ3NDEKTSV4RRFFQ69G5FAV","job":"a"}`)
	s.refused(400, "bad-request", "POST", "/api/v1/tasks?job=a", `{}`)
	s.refused(404, "no-task", "GET", "/api/v1/tasks/01ARZ3NDEKTSV4RRFFQ69G5FAV", "")
}

// A task submitted under an id exists once, whichever caller repeats the submission, and the log
// names the submitter.
func TestSubmit(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	const id = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	var first, again client.Receipt
	s.want(200, "PUT", "/api/v1/tasks/"+id, `{"spec":{"run":{"argv":["date"]}},"labels":{"zone":"eu"}}`, &first)
	s.want(200, "PUT", "/api/v1/tasks/"+id, `{"spec":{"run":{"argv":["date"]}},"labels":{"zone":"eu"}}`, &again)
	if first.ID != id || first.Again || !again.Again || again.Seq != first.Seq {
		t.Errorf("submitted as %+v, and again as %+v", first, again)
	}
	s.refused(409, "id-taken", "PUT", "/api/v1/tasks/"+id, `{"spec":{"run":{"argv":["true"]}}}`)
	var keyed, taken client.Receipt
	s.want(200, "POST", "/api/v1/tasks", `{"spec":{"run":{"argv":["date"]},"unique":{"key":"k"}}}`, &keyed)
	s.refused(409, "key-taken", "POST", "/api/v1/tasks", `{"spec":{"run":{"argv":["date"]},"unique":{"key":"k"}}}`)
	s.want(200, "POST", "/api/v1/tasks", `{"spec":{"run":{"argv":["date"]},"unique":{"key":"k","on_conflict":"return"}}}`, &taken)
	if !taken.Existing || taken.ID != keyed.ID {
		t.Errorf("with the key of %+v: %+v", keyed, taken)
	}

	var page client.ListPage
	s.want(200, "GET", "/api/v1/tasks?labels[zone]=eu&states=pending&states=running&counts=true&at_least="+itoa(keyed.Seq), "", &page)
	if len(page.Tasks) != 1 || page.Tasks[0].ID != id || page.Counts["pending"] != 2 {
		t.Errorf("listed are %+v", page)
	}
	s.want(200, "GET", "/api/v1/tasks?limit=1&oldest_first=true", "", &page)
	if len(page.Tasks) != 1 || page.Next == "" {
		t.Fatalf("the first page is %+v", page)
	}
	last := page.Tasks[0].ID
	s.want(200, "GET", "/api/v1/tasks?limit=1&oldest_first=true&cursor="+page.Next, "", &page)
	if len(page.Tasks) != 1 || page.Tasks[0].ID == last {
		t.Errorf("the second page is %+v", page)
	}

	var gone task.Task
	s.want(200, "POST", "/api/v1/tasks/"+id+"/cancel", `{"reason":"not today"}`, &gone)
	if gone.State != task.Cancelled {
		t.Errorf("cancelled is %s", gone.State)
	}
	s.refused(409, "ended", "POST", "/api/v1/tasks/"+id+"/signal", "")
	var ended struct{ Met bool }
	if s.want(200, "GET", "/api/v1/tasks/"+id+"/wait", "", &ended); !ended.Met {
		t.Error("who waits is not told of the end")
	}
	facts, err := s.store.Task(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for i := range facts {
		if facts[i].Fact.Actor != "ada" {
			t.Errorf("%s is by %q, want who was let in", facts[i].Fact.Type, facts[i].Fact.Actor)
		}
	}
}

func itoa(n uint64) string { return strconv.FormatUint(n, 10) }

// A caller that has an answer is told so, and large answers are compressed for callers that want
// that.
func TestTravel(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	var r client.Receipt
	s.want(200, "POST", "/api/v1/tasks", `{"spec":{"run":{"argv":["echo","`+strings.Repeat("long ", 500)+`"]}}}`, &r)
	path := "/api/v1/tasks/" + string(r.ID)
	got := s.want(200, "GET", path, "", nil)
	tag := got.header.Get("ETag")
	if tag == "" || got.header.Get("Cache-Control") != "private, no-cache" {
		t.Errorf("the headers are %v", got.header)
	}
	if again := s.want(304, "GET", path, "", nil, "If-None-Match", `W/"x", `+tag); len(again.body) > 0 || again.header.Get("ETag") != tag {
		t.Errorf("again: %v", again)
	}
	small := s.want(200, "GET", path, "", nil, "Accept-Encoding", "br, gzip;q=0.5")
	z, err := gzip.NewReader(bytes.NewReader(small.body))
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := io.ReadAll(z); err != nil || !bytes.Equal(plain, got.body) || len(small.body) > len(got.body)/2 {
		t.Errorf("%d bytes come as %d: %v", len(got.body), len(small.body), err)
	}
	if s.want(200, "GET", path, "", nil, "Accept-Encoding", "gzip;q=0").header.Get("Content-Encoding") != "" {
		t.Error("compressed for who wants none of that")
	}
	s.want(200, "POST", path+"/cancel", "", nil)
	if s.want(200, "GET", path, "", nil, "If-None-Match", tag).header.Get("ETag") == tag {
		t.Error("what has changed has the same tag")
	}
}

// The server does not wait for callers that send slowly, or that send headers without end.
func TestSlow(t *testing.T) {
	t.Parallel()
	s := open(t, func(s *Server) { s.headerTimeout, s.bodyTimeout = 50*time.Millisecond, 100*time.Millisecond })
	for _, part := range []string{"GET /api/v1/tasks HTTP/1.1\r\n", "POST /api/v1/tasks HTTP/1.1\r\nHost: 127.0.0.1:" + s.port +
		"\r\nAuthorization: Bearer " + secret + "\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"} {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, part); err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(c) // until the service hangs up
		if errors.Is(err, net.ErrClosed) || err != nil && strings.Contains(err.Error(), "timeout") || strings.Contains(string(text), " 200 ") {
			t.Errorf("a slow one is answered %q, %v", text, err)
		}
		if strings.HasPrefix(part, "POST") && !(strings.HasPrefix(string(text), "HTTP/1.1 408 ") && strings.Contains(string(text), "urn:millrace:slow")) {
			t.Errorf("a slow body is answered %q", text)
		}
		_ = c.Close()
	}
	got, err := s.try("GET", "/api/v1/tasks", "", "X-Long", strings.Repeat("x", 2*largestHeader))
	if err == nil && got.status != http.StatusRequestHeaderFieldsTooLarge { // it may hang up before that was read
		t.Errorf("a header of %d bytes comes to %d", 2*largestHeader, got.status)
	}
}
