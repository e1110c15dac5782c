package crawler

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestStartPage(t *testing.T) {
	elsewhere := "http://elsewhere.invalid/"
	for _, c := range []struct {
		name  string
		pages map[string]http.HandlerFunc
		code  int
		want  failure // a part of its message
	}{
		{"not found is an answer", map[string]http.HandlerFunc{}, ExitOK, failure{}},
		{"hangs up", map[string]http.HandlerFunc{"/": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
			ExitFailed, failure{"cannot be reached: EOF", "network", true}},
		{"hangs", map[string]http.HandlerFunc{"/": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
			ExitFailed, failure{"no complete answer within 300ms", "network", true}},
		{"closed", map[string]http.HandlerFunc{"/robots.txt": answer("text/plain", "User-agent:*\nDisallow:/")},
			ExitFailed, failure{"robots.txt does not allow the start page", "task", false}},
		{"robots.txt fails", map[string]http.HandlerFunc{"/robots.txt": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }},
			ExitFailed, failure{"the server answers 500", "network", true}},
		{"leads away", map[string]http.HandlerFunc{"/": redirectTo("/2"), "/2": redirectTo(elsewhere)},
			ExitFailed, failure{"crawl " + elsewhere + " instead", "task", false}},
		{"leads in a circle", map[string]http.HandlerFunc{"/": redirectTo("/2"), "/2": redirectTo("/")},
			ExitFailed, failure{"crawled already", "task", false}},
	} {
		t.Run(c.name, func(t *testing.T) {
			timeout := "20s"
			if c.name == "hangs" {
				timeout = "300ms"
			}
			s := crawlFor(t, "--delay=0", "--timeout="+timeout, serve(t, c.pages).URL)

			if s.code != c.code {
				t.Fatalf("exit code %d, want %d", s.code, c.code)
			}
			if c.code == ExitOK {
				s.result(t)
				return
			}
			if len(s.errors) != 1 {
				t.Fatalf("errors: %+v", s.errors)
			}
			got := s.errors[0]
			if !strings.Contains(got.Message, c.want.Message) || got.Class != c.want.Class || got.Retryable != c.want.Retryable {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if !strings.Contains(s.stderr, c.want.Message) {
				t.Errorf("people read: %s", s.stderr)
			}
		})
	}
}

func TestNoServer(t *testing.T) {
	server := serve(t, nil)
	server.Close() // no server listens there now

	s := crawlFor(t, server.URL)

	if s.code != ExitFailed || len(s.errors) != 1 || s.errors[0].Class != "network" || !s.errors[0].Retryable {
		t.Errorf("exit code %d, errors %+v", s.code, s.errors)
	}
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		params string
		args   []string
		want   string
	}{
		{"", []string{"--max-page=3"}, "not defined: -max-page; crawl -h"},
		{"", []string{"--workers=0"}, "workers is 0, want 1 to 64"},
		{"", []string{"--max-pages=0"}, "max-pages is 0, want at least 1"},
		{"", []string{"--timeout=0"}, "timeout is 0s"},
		{"", []string{"--delay=-1s"}, "delay is -1s"},
		{"", []string{"example.com"}, `"example.com", want http://host/`},
		{"", []string{"ftp://example.com/"}, "want http://host/"},
		{"", []string{"http://me:secret@example.com/"}, "holds a user name"},
		{"", []string{"http://a/", "--workers=2"}, "one URL at most, and after the flags"},
		{`[1]`, nil, "MILLRACE_PARAMS: want a JSON object"},
		{`{"max_page": 3}`, nil, `there is no parameter "max_page"`},
		{`{"max-pages": 3}`, nil, `there is no parameter "max-pages"`},
		{`{"delay": {}}`, nil, `delay is {}`},
		{`{"max_pages": 1.5}`, nil, `max_pages is 1.5`},
	} {
		t.Setenv("MILLRACE_PARAMS", c.params)
		s := crawlFor(t, c.args...)

		if s.code != ExitUsage || len(s.errors) != 1 || s.errors[0].Class != "task" || s.errors[0].Retryable {
			t.Errorf("%s %q: exit code %d, errors %+v", c.params, c.args, s.code, s.errors)
			continue
		}
		if !strings.Contains(s.errors[0].Message, c.want) || strings.Contains(s.stderr, "secret") {
			t.Errorf("%s %q: %s, want %q", c.params, c.args, s.stderr, c.want)
		}
	}
}

func TestParameters(t *testing.T) {
	server := serve(t, map[string]http.HandlerFunc{"/": linksTo("/a", "/b", "/c")})
	t.Setenv("MILLRACE_PARAMS", `{"url": "`+server.URL+`/nowhere", "max_pages": 2, "workers": "1", "delay": "0s", "timeout": null}`)

	if s := crawlFor(t); s.code != ExitOK || len(s.pages) != 1 || s.pages[0].URL != server.URL+"/nowhere" {
		t.Errorf("exit code %d, pages %+v", s.code, s.pages)
	}
	// The command line overrides the parameters; the rest stays.
	if s := crawlFor(t, server.URL); s.code != ExitOK || len(s.pages) != 2 {
		t.Errorf("exit code %d, pages %+v", s.code, s.pages)
	}
	if s := crawlFor(t, "--max-pages=3", server.URL); s.code != ExitOK || len(s.pages) != 3 {
		t.Errorf("exit code %d, pages %+v", s.code, s.pages)
	}
}

func TestHelp(t *testing.T) {
	s := crawlFor(t, "-h")
	if s.code != ExitOK || !strings.Contains(strings.Join(s.log, "\n"), "-max-pages N") {
		t.Errorf("exit code %d, output %q", s.code, s.log)
	}
}

func TestOutputBroken(t *testing.T) {
	server := serve(t, map[string]http.HandlerFunc{"/": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }})
	var stderr strings.Builder

	code := Main([]string{server.URL}, strings.NewReader(""), brokenWriter{}, &stderr)

	if code != ExitFailed || !strings.Contains(stderr.String(), "the disk is full") {
		t.Errorf("exit code %d, stderr: %s", code, &stderr)
	}
}

type brokenWriter struct{ io.Writer }

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }
