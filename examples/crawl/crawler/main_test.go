package crawler

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// said is the output of a run of the program, divided as Millrace would.
type said struct {
	code    int
	pages   []page
	status  []status
	errors  []failure
	results []result
	log     []string // lines that are no messages
	stderr  string
}

type status struct {
	Message  string
	Progress float64
}

type failure struct {
	Message, Class string
	Retryable      bool
}

type result struct {
	Pages, Errors, Skipped, Left int
	Bytes                        int64
	Seconds                      float64
}

// crawlFor runs the program to its end. It gets no message, and stdin ends at once.
func crawlFor(t *testing.T, args ...string) *said {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := Main(args, strings.NewReader(""), &stdout, &stderr)
	return read(t, code, stdout.String(), stderr.String())
}

// read divides an output, and fails the test for output that no run may have.
func read(t *testing.T, code int, stdout, stderr string) *said {
	t.Helper()
	s := &said{code: code, stderr: stderr}
	for line := range strings.Lines(stdout) {
		s.line(t, line)
	}
	known := make(map[string]bool)
	for _, p := range s.pages {
		if known[p.URL] {
			t.Errorf("%s was crawled twice", p.URL)
		}
		known[p.URL] = true
	}
	for _, st := range s.status {
		if st.Progress < 0 || st.Progress > 1 || st.Message == "" {
			t.Errorf("status %+v", st)
		}
	}
	if ends := len(s.results) + len(s.errors); ends > 1 || code == ExitOK && len(s.errors) > 0 {
		t.Errorf("exit code %d with results %v and errors %v", code, s.results, s.errors)
	}
	return s
}

func (s *said) line(t *testing.T, line string) {
	t.Helper()
	var m struct {
		Type    string
		Payload json.RawMessage
	}
	if !strings.HasSuffix(line, "\n") {
		t.Errorf("a line without an end: %q", line)
	}
	if json.Unmarshal([]byte(line), &m) != nil {
		s.log = append(s.log, strings.TrimSuffix(line, "\n"))
		return
	}
	var err error
	switch m.Type {
	case "INSERT_DATA":
		s.pages, err = add(s.pages, m.Payload)
	case "STATUS":
		s.status, err = add(s.status, m.Payload)
	case "ERROR":
		s.errors, err = add(s.errors, m.Payload)
	case "RESULT":
		s.results, err = add(s.results, m.Payload)
	default:
		t.Errorf("a message of the type %q", m.Type)
	}
	if err != nil {
		t.Errorf("%s: %v", line, err)
	}
}

func add[T any](list []T, payload []byte) ([]T, error) {
	var v T
	d := json.NewDecoder(bytes.NewReader(payload))
	d.DisallowUnknownFields()
	err := d.Decode(&v)
	return append(list, v), err
}

// result is the one result.
func (s *said) result(t *testing.T) result {
	t.Helper()
	if len(s.results) != 1 {
		t.Fatalf("%d results, exit code %d, stderr: %s", len(s.results), s.code, s.stderr)
	}
	return s.results[0]
}

// page is the record of the page with this path.
func (s *said) page(t *testing.T, path string) page {
	t.Helper()
	for _, p := range s.pages {
		if pathOf(t, p.URL) == path {
			return p
		}
	}
	t.Fatalf("no record of %s; stderr: %s", path, s.stderr)
	return page{}
}

// paths are the paths of the records, in their order.
func (s *said) paths(t *testing.T) []string {
	t.Helper()
	var paths []string
	for _, p := range s.pages {
		paths = append(paths, pathOf(t, p.URL))
	}
	return paths
}

func pathOf(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.RequestURI()
}

// serve serves pages by their paths until the test ends; robots.txt is missing
// unless it is among them.
func serve(t *testing.T, pages map[string]http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if page, ok := pages[r.URL.Path]; ok {
			page(w, r)
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(server.Close)
	return server
}

// htmlPage answers with HTML.
func htmlPage(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		io.WriteString(w, text)
	}
}

// linksTo answers with a page that links to the given addresses.
func linksTo(addresses ...string) http.HandlerFunc {
	var text strings.Builder
	for _, a := range addresses {
		text.WriteString(`<a href="` + a + `">x</a>`)
	}
	return htmlPage(text.String())
}

func redirectTo(address string) http.HandlerFunc {
	return http.RedirectHandler(address, http.StatusFound).ServeHTTP
}
