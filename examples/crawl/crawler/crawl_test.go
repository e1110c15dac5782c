package crawler

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestOrderDoesNotDependOnWorkers(t *testing.T) {
	// Page b is one link away from the start, and also behind a slower page.
	pages := map[string]http.HandlerFunc{
		"/":  linksTo("/a", "/b"),
		"/a": linksTo("/b", "/c"),
		"/b": linksTo("/a", "/d"),
		"/c": linksTo("/e"),
		"/d": linksTo("/e", "/"),
		"/e": linksTo("/a"),
	}
	for workers := range 4 {
		s := crawlFor(t, "--delay=0", fmt.Sprintf("--workers=%d", workers+1), "--max-pages=4", serve(t, pages).URL)

		paths := s.paths(t)
		slices.Sort(paths)
		if want := []string{"/", "/a", "/b", "/c"}; !slices.Equal(paths, want) {
			t.Errorf("%d workers crawled %v, want %v", workers+1, paths, want)
		}
		if r := s.result(t); r.Pages != 4 || r.Left != 2 {
			t.Errorf("result %+v, want 4 pages and 2 left", r)
		}
	}
}

func TestLimits(t *testing.T) {
	chain := map[string]http.HandlerFunc{
		"/": redirectTo("/1"), "/1": linksTo("/2"), "/2": linksTo("/3"), "/3": linksTo("/4"), "/4": linksTo("/1"),
	}
	for _, c := range []struct {
		flag string
		want []string
	}{
		{"--max-depth=-1", []string{"/", "/1", "/2", "/3", "/4"}},
		{"--max-depth=0", []string{"/", "/1"}}, // a redirect is no step
		{"--max-depth=2", []string{"/", "/1", "/2", "/3"}},
		{"--max-pages=1", []string{"/"}},
		{"--max-pages=3", []string{"/", "/1", "/2"}},
	} {
		s := crawlFor(t, "--delay=0", c.flag, serve(t, chain).URL)

		if got := s.paths(t); s.code != ExitOK || !slices.Equal(got, c.want) {
			t.Errorf("%s: exit code %d, crawled %v, want %v", c.flag, s.code, got, c.want)
		}
	}
}

func TestStaysOnTheSite(t *testing.T) {
	other := serve(t, map[string]http.HandlerFunc{
		"/":           func(http.ResponseWriter, *http.Request) { t.Error("another site was crawled") },
		"/robots.txt": func(http.ResponseWriter, *http.Request) { t.Error("another site was asked") },
	})
	s := crawlFor(t, "--delay=0", serve(t, map[string]http.HandlerFunc{
		"/":     linksTo(other.URL, "/away", "mailto:a@example.com", "javascript:void(0)", "data:,x", "#top", "?", "http://%zz/", "//"),
		"/away": redirectTo(other.URL + "/"),
	}).URL)

	if got, want := s.paths(t), []string{"/", "/away"}; !slices.Equal(got, want) {
		t.Errorf("crawled %v, want %v", got, want)
	}
	if p := s.page(t, "/away"); p.Redirect != other.URL+"/" || p.Error != "" {
		t.Errorf("the page that leads away: %+v", p)
	}
}

func TestRedirects(t *testing.T) {
	pages := map[string]http.HandlerFunc{
		"/":     linksTo("/self", "/ping", "/r0", "/odd", "/none", "/done"),
		"/self": redirectTo("/self"),
		"/ping": redirectTo("/pong"),
		"/pong": redirectTo("/ping"),
		"/odd":  redirectTo("ftp://example.com/"),
		"/none": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusFound) },
		"/done": redirectTo("/"),
	}
	for i := range 30 {
		pages[fmt.Sprintf("/r%d", i)] = redirectTo(fmt.Sprintf("/r%d", i+1))
	}
	s := crawlFor(t, "--delay=0", serve(t, pages).URL)

	if s.code != ExitOK {
		t.Fatalf("exit code %d", s.code)
	}
	for _, path := range []string{"/self", "/ping", "/pong", "/done", "/none"} {
		if p := s.page(t, path); p.Status != http.StatusFound || p.Error != "" {
			t.Errorf("%+v", p)
		}
	}
	if p := s.page(t, "/odd"); !strings.Contains(p.Error, "ftp:") {
		t.Errorf("%+v", p)
	}
	if p := s.page(t, "/r10"); !strings.Contains(p.Error, "more than 10 redirects") {
		t.Errorf("%+v", p)
	}
	if slices.Contains(s.paths(t), "/r11") {
		t.Error("redirects are followed without end")
	}
}

func TestBrokenPages(t *testing.T) {
	var huge strings.Builder
	huge.WriteString(`<title>Huge</title><a href="/first">`)
	huge.WriteString(strings.Repeat("<p>x", maxBody/4))
	huge.WriteString(`<a href="/beyond">`)
	var many strings.Builder
	for i := range maxLinks + 10 {
		fmt.Fprintf(&many, "<a href='/?%d'>", i)
	}
	s := crawlFor(t, "--delay=0", "--timeout=20s", "--max-pages=20", serve(t, map[string]http.HandlerFunc{
		"/":      linksTo("/soup", "/deep", "/huge", "/latin", "/short", "/gone", "/fail", "/hangup", "/file", "/text", "/untyped", "/title", "/many"),
		"/soup":  htmlPage("<<p><title>  So\nup\t<b></title><a href=/inner?a=b&c='d'><a href><a href=''><a  href=\"/un"),
		"/deep":  htmlPage(strings.Repeat("<div>", 100_000) + "<a href=/inner>"),
		"/huge":  htmlPage(huge.String()),
		"/latin": answer("text/html; charset=iso-8859-1", "<title>M\xfchle</title>"),
		"/short": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "1000")
			htmlPage("<title>Cut</title>")(w, r)
		},
		"/fail":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503); io.WriteString(w, `<a href="/no">`) },
		"/hangup": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"/file":   answer("application/pdf", `<a href="/no">`),
		"/text":   answer("text/plain", `<a href="/no">`),
		"/untyped": func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			io.WriteString(w, "<html><head><meta charset=windows-1251><title>\xcc\xe8\xf0</title>")
		},
		"/title": answer("text/html; charset=utf-8", "<title>\xff"+strings.Repeat("ü", maxTitle)+"</title>"),
		"/many":  htmlPage(many.String()),
	}).URL)

	if s.code != ExitOK {
		t.Fatalf("exit code %d, stderr: %s", s.code, s.stderr)
	}
	for path, want := range map[string]page{
		"/soup":    {Status: 200, Title: "So up <b>", Links: 1, Type: "text/html"},
		"/deep":    {Status: 200, Links: 1, Type: "text/html"},
		"/huge":    {Status: 200, Title: "Huge", Links: 1, Type: "text/html", Truncated: true, Bytes: maxBody},
		"/latin":   {Status: 200, Title: "Mühle", Type: "text/html"},
		"/short":   {Status: 200, Title: "Cut", Type: "text/html", Error: "the answer broke off: unexpected EOF"},
		"/gone":    {Status: 404, Type: "text/plain", Error: "404 Not Found"},
		"/fail":    {Status: 503, Type: "text/html", Error: "503 Service Unavailable"},
		"/hangup":  {Error: "EOF"},
		"/file":    {Status: 200, Type: "application/pdf"},
		"/text":    {Status: 200, Type: "text/plain"},
		"/untyped": {Status: 200, Title: "Мир", Type: "text/html"},
		"/title":   {Status: 200, Title: "\uFFFD" + strings.Repeat("ü", (maxTitle-3)/2) + "…", Type: "text/html"},
		"/many":    {Status: 200, Links: maxLinks, Type: "text/html"},
	} {
		got := s.page(t, path)
		if got.Bytes == 0 && want.Status != 0 {
			t.Errorf("%s has no bytes", path)
		}
		want.URL, want.Depth, want.MS = got.URL, 1, got.MS
		if want.Bytes == 0 {
			want.Bytes = got.Bytes
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", path, got, want)
		}
	}
	for _, path := range s.paths(t) {
		if path == "/beyond" || path == "/no" {
			t.Errorf("%s was found where nothing is to be read", path)
		}
	}
	if r := s.result(t); r.Errors != strings.Count(s.stderr, "\n") {
		t.Errorf("%d errors, and on stderr: %s", r.Errors, s.stderr)
	}
}

func TestRobots(t *testing.T) {
	s := crawlFor(t, "--delay=0", serve(t, map[string]http.HandlerFunc{
		"/robots.txt": answer("text/plain", "User-agent: *\nDisallow: /a\nAllow: /a/b\n"),
		"/":           linksTo("/a", "/%61/", "/a/b", "/to-a"),
		"/to-a":       redirectTo("/a?x"),
		"/a/b":        htmlPage("open"),
		"/a":          func(http.ResponseWriter, *http.Request) { t.Error("a closed page was crawled") },
	}).URL)

	paths := s.paths(t)
	slices.Sort(paths)
	if want := []string{"/", "/a/b", "/to-a"}; s.code != ExitOK || !slices.Equal(paths, want) {
		t.Errorf("exit code %d, crawled %v, want %v", s.code, paths, want)
	}
	if r := s.result(t); r.Skipped != 3 || r.Left != 0 {
		t.Errorf("result %+v, want 3 skipped", r)
	}
}

func TestRobotsElsewhere(t *testing.T) {
	for name, robots := range map[string]http.HandlerFunc{
		"refused":        func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
		"redirect":       redirectTo("/rules"),
		"redirects ever": redirectTo("/robots.txt"),
		"rubbish":        answer("image/png", "\x89PNG\r\n\x00\xff:::\nDisallow: /\n"),
	} {
		s := crawlFor(t, "--delay=0", serve(t, map[string]http.HandlerFunc{
			"/robots.txt": robots, "/": htmlPage("open"), "/rules": answer("text/plain", "User-agent: *\nDisallow: /x"),
		}).URL)

		if s.code != ExitOK || len(s.pages) != 1 {
			t.Errorf("%s: exit code %d, %d pages, stderr: %s", name, s.code, len(s.pages), s.stderr)
		}
	}
}

func TestRequestsOfOnePage(t *testing.T) {
	var asked []string // by one worker, so one request after the other
	server := serve(t, map[string]http.HandlerFunc{
		"/": linksTo("/a#1", "/a#2", "/./a", "/x/../a", "/%61", "/a?"),
		"/a": func(_ http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.UserAgent())
		},
	})
	s := crawlFor(t, "--delay=1ms", "--workers=1", server.URL)

	if len(asked) != 1 || !strings.HasPrefix(asked[0], agent+"/") {
		t.Errorf("/a was asked for by %q", asked)
	}
	if p := s.page(t, "/"); p.Links != 1 {
		t.Errorf("%d links, want 1", p.Links)
	}
}

func answer(contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		io.WriteString(w, body)
	}
}
