package httpapi

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/service/answers"
	"millrace/service/client"
)

var (
	hostileRounds = flag.Int("rounds", 12, "how many `rounds` TestHostileRequests plays: each sends something to everything that the document has")
	hostileSeed   = flag.Uint64("rounds-seed", 1, "the `seed` of its choices")
)

// TestHostileRequests sends what the document allows, and what it does not, byte by byte. Every
// request is answered, none fails the server, an error is a problem with advice, and the answer is
// one that the document has.
func TestHostileRequests(t *testing.T) {
	said := &worries{}
	s := open(t, func(s *Server) { s.Log = slog.New(said) })
	h := newHostile(s, *hostileSeed)
	for round := range *hostileRounds {
		for i := range h.operations {
			h.attack(&h.operations[i])
		}
		if t.Failed() {
			t.Fatalf("round %d: go test ./httpapi -run TestHostileRequests -rounds-seed %d", round, *hostileSeed)
		}
	}
	s.want(200, "GET", prefix+"/health", "", nil)
	var page client.ListPage
	s.want(200, "GET", prefix+"/tasks?at_least="+itoa(s.last()), "", &page)
	for _, text := range said.all() {
		t.Errorf("the server has said: %s", text)
	}
	t.Logf("the answers are %v", h.statuses)
}

// worries collect log messages that must not occur: failures, and panics.
type worries struct {
	mu   sync.Mutex
	said []string // guarded by mu
}

func (w *worries) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.said
}

func (*worries) Enabled(context.Context, slog.Level) bool { return true }
func (w *worries) WithAttrs([]slog.Attr) slog.Handler     { return w }
func (w *worries) WithGroup(string) slog.Handler          { return w }

// Handle implements [slog.Handler].
func (w *worries) Handle(_ context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn && !strings.Contains(r.Message, "panic") {
		return nil
	}
	text := r.Message
	r.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, text)
	return nil
}

// documentedOperation is an operation in the document.
type documentedOperation struct {
	method, path string
	Parameters   []struct {
		Name, In string
		Schema   map[string]any
	}
	RequestBody struct {
		Content map[string]struct{ Schema map[string]any }
	}
}

// hostile makes requests of a document.
type hostile struct {
	*site
	random     *rand.Rand
	operations []documentedOperation
	schemas    map[string]map[string]any
	tasks      []string
	statuses   map[int]int
}

// newHostile fills the service with something of each kind.
func newHostile(s *site, seed uint64) *hostile {
	s.Helper()
	h := &hostile{site: s, random: rand.New(rand.NewPCG(seed, seed)), statuses: map[int]int{}}
	s.want(200, "PUT", prefix+"/jobs/hello", `{"definition":{"run":{"argv":["date"]},"params":[{"name":"n","type":"integer","default":1}]}}`, nil)
	s.want(200, "PUT", prefix+"/schedules/nightly", `{"definition":{"schedule":{"cron":"0 3 * * *"},"task":{"job":"hello"}}}`, nil)
	s.want(200, "PUT", prefix+"/calendars/office", `{"definition":{"rules":[{"open":"mon-fri"}],"otherwise":"closed"}}`, nil)
	s.want(200, "PUT", prefix+"/files/app", tarOf(s.T, tar.Header{Name: "a"}, tar.Header{Name: "b"}), nil, "Content-Type", ofTar)
	for _, body := range []string{
		`{"job":"hello"}`,
		`{"spec":{"run":{"argv":["date"]},"retry":{"max":3},"concurrency":[{"key":"a","max":1}]},"params":{"a":[1]},"labels":{"zone":"eu"},"queue":"crawl"}`,
		`{"spec":{"steps":[{"name":"a","run":{"argv":["date"]}},{"name":"b","run":{"argv":["date"]},"needs":[{"step":"a"}]}]}}`,
		`{"spec":{"run":{"argv":["date"]},"signal":{}}}`,
	} {
		var r client.Receipt
		s.want(200, "POST", prefix+"/tasks", body, &r)
		h.tasks = append(h.tasks, string(r.ID))
	}
	var doc struct {
		Paths      map[string]map[string]documentedOperation
		Components struct {
			Schemas map[string]map[string]any
		}
	}
	s.want(200, "GET", "/openapi.json", "", &doc)
	h.schemas = doc.Components.Schemas
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(doc.Paths[path])) {
			o := doc.Paths[path][method]
			o.method, o.path = strings.ToUpper(method), path
			h.operations = append(h.operations, o)
		}
	}
	return h
}

// wire is a request as it is sent.
type wire struct {
	method, target string
	header         []string // lines
	body           string
	kind           string // of the body
	missing        int    // how many bytes of the body do not come
	chunked        bool   // the body has its own lengths
	patient        bool   // it may wait for what does not come
}

func (w *wire) bytes(s *site) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: 127.0.0.1:%s\r\nAuthorization: Bearer %s\r\nConnection: close\r\n", w.method, w.target, s.port, secret)
	if w.kind != "" {
		fmt.Fprintf(&b, "Content-Type: %s\r\n", w.kind)
	}
	for _, line := range w.header {
		b.WriteString(line + "\r\n")
	}
	switch {
	case w.chunked:
		b.WriteString("Transfer-Encoding: chunked\r\n")
	case w.missing > 0 || w.body != "" || w.method == http.MethodPost:
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(w.body)+w.missing)
	}
	return b.String() + "\r\n" + w.body
}

// slow is the longest time for an answer to a request that does not ask to wait.
const slow = 10 * time.Second

// attack sends one request to an operation.
func (h *hostile) attack(o *documentedOperation) {
	h.Helper()
	w := h.request(o)
	for range h.random.IntN(3) {
		twists[h.random.IntN(len(twists))](h, w)
	}
	text := w.bytes(h.site)
	begun := time.Now()
	got, err := h.exchange(w, text)
	show := func() string {
		return fmt.Sprintf("%.1500q", strings.Replace(text, "Authorization: Bearer "+secret+"\r\nConnection: close\r\n", "", 1))
	}
	if took := time.Since(begun); took > slow {
		h.Errorf("after %v there is %d, %v: %s", took, got.status, err, show())
	}
	switch {
	case err != nil && (w.patient || malformed(text)): // no answer is expected
		return
	case err != nil:
		h.Errorf("%v: %s", err, show())
		return
	}
	h.statuses[got.status]++
	if wrong := undeclared(w.method, w.target, got); wrong != "" && !malformed(text) {
		h.Errorf("%s: this came of %s: %.500s", wrong, show(), got.body)
	}
	if malformed(text) { // the HTTP library refuses what is not HTTP
		if got.status < 400 || got.status == 500 {
			h.Errorf("%s is no HTTP, and comes to %d", show(), got.status)
		}
		return
	}
	switch {
	case got.status == http.StatusNotModified:
		if len(got.body) > 0 {
			h.Errorf("%s: what has not changed has a body: %s", show(), got.body)
		}
	case got.status != http.StatusOK && got.status < 400:
		h.Errorf("%s comes to %d, %v", show(), got.status, got.header)
	case got.status >= 400:
		h.problem(show, w, got)
	case w.method == http.MethodHead:
	case strings.HasPrefix(got.header.Get("Content-Type"), "text/event-stream"):
	case got.header.Get("Content-Encoding") == "gzip":
		z, err := gzip.NewReader(bytes.NewReader(got.body))
		if err == nil {
			got.body, err = io.ReadAll(z)
		}
		if err != nil {
			h.Errorf("%s: %v", show(), err)
			return
		}
		h.fits(o, w, got, show)
	default:
		h.fits(o, w, got, show)
	}
}

// fits compares an answer with the document, if it belongs to the intended operation.
func (h *hostile) fits(o *documentedOperation, w *wire, got answer, show func() string) {
	h.Helper()
	at, _, _ := strings.Cut(w.target, "?")
	if method := cmpMethod(w.method); method == o.method && samePath(o.path, at) && strings.HasPrefix(got.header.Get("Content-Type"), "application/json") {
		failed := h.Failed()
		if h.documented(&operation{route: route{method: method, path: strings.TrimPrefix(o.path, prefix)}}, got); h.Failed() && !failed {
			h.Errorf("this came of %s", show())
		}
	}
}

func cmpMethod(method string) string {
	if method == http.MethodHead {
		return http.MethodGet
	}
	return method
}

// samePath tells whether a path matches a template.
func samePath(template, path string) bool {
	want, is := strings.Split(template, "/"), strings.Split(path, "/")
	if len(want) != len(is) {
		return false
	}
	for i := range want {
		if want[i] != is[i] && !strings.HasPrefix(want[i], "{") {
			return false
		}
	}
	return !strings.HasPrefix(template, prefix+"/tasks/{") || !slices.Contains([]string{"cancel", "retry", "signal", "dismiss"}, is[4])
}

// problem holds a refusal to its form.
func (h *hostile) problem(show func() string, w *wire, got answer) {
	h.Helper()
	// A request that has hung up is dropped, and one log is verified at a time.
	if busy := w.missing > 0 || w.chunked || strings.Contains(w.target, "/verify"); got.status >= 500 && !(busy && got.status == http.StatusServiceUnavailable) {
		h.Errorf("%s comes to %d: %s", show(), got.status, got.body)
	}
	if kind := got.header.Get("Content-Type"); kind != "application/problem+json" {
		h.Errorf("%s: %d comes as %q: %.200s", show(), got.status, kind, got.body)
		return
	}
	if w.method == http.MethodHead {
		return
	}
	if says := string(got.body); strings.Contains(says, "invalid submission") && !strings.Contains(w.target, "/tasks") && !strings.Contains(w.target, "/bulk") && !strings.Contains(w.target, "/plan") && !strings.Contains(w.target, "/run") {
		h.Errorf("%s is no submission: %s", show(), says)
	}
	var p answers.Problem
	err := json.Unmarshal(got.body, &p)
	if _, known := strings.CutPrefix(p.Type, "urn:millrace:"); err != nil || !known || p.Status != got.status || p.Title == "" || p.Detail == "" || p.Next == "" {
		h.Errorf("%s is refused with %s, %v", show(), got.body, err)
	}
}

// malformed tells whether a request is none by the rules of HTTP.
func malformed(text string) bool {
	for _, part := range []string{"\r\nHost: other.example", "\r\nX: a\x01b", "\r\nTransfer-Encoding: gzip"} { // that the server sees to itself
		if strings.Contains(text, part) {
			return true
		}
	}
	_, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
	return err != nil || strings.Index(text, "\r\n\r\n") > largestHeader
}

// exchange sends bytes on a connection of their own, closes its sending side, and returns the
// answer. Of a stream it reads the beginning.
func (h *hostile) exchange(w *wire, text string) (answer, error) {
	h.Helper()
	conn, err := (&net.Dialer{}).DialContext(h.Context(), "tcp", h.listener.Addr().String())
	if err != nil {
		h.Fatal(err)
	}
	defer func() { _ = conn.Close() }() // no more is expected
	within := patience
	if w.patient {
		within = 20 * time.Millisecond
	}
	if err := conn.SetDeadline(time.Now().Add(within)); err != nil {
		h.Fatal(err)
	}
	sent := make(chan struct{})
	go func() { // an early answer is read though not all was sent
		defer close(sent)
		_, _ = io.WriteString(conn, text)
		if half, ok := conn.(*net.TCPConn); ok && (w.missing > 0 || w.chunked) {
			_ = half.CloseWrite() // the rest does not come
		}
	}()
	defer func() { _ = conn.Close(); <-sent }()
	from := bufio.NewReader(conn)
	got, err := http.ReadResponse(from, &http.Request{Method: w.method})
	if err == nil && got.StatusCode == http.StatusContinue {
		got, err = http.ReadResponse(from, &http.Request{Method: w.method})
	}
	if err != nil {
		return answer{}, err
	}
	is := answer{status: got.StatusCode, header: got.Header}
	if strings.HasPrefix(got.Header.Get("Content-Type"), "text/event-stream") {
		begins := make([]byte, 16)
		_, err = io.ReadAtLeast(got.Body, begins, 1)
		return is, err
	}
	is.body, err = io.ReadAll(got.Body)
	return is, err
}

// request makes a request of the document, with values that may fit or not.
func (h *hostile) request(o *documentedOperation) *wire {
	w := &wire{method: o.method, target: o.path, patient: strings.HasSuffix(o.path, "/wait")}
	query := url.Values{}
	for _, p := range o.Parameters {
		if p.In == "path" {
			w.target = strings.ReplaceAll(w.target, "{"+p.Name+"}", url.PathEscape(h.word(p.Name+" "+o.path)))
			continue
		}
		if h.random.IntN(5) > 0 {
			continue
		}
		w.patient = w.patient || p.Name == "newer_than" || p.Name == "rates"
		for range 1 + h.random.IntN(2)*h.random.IntN(2) {
			name, schema := p.Name, p.Schema
			if h.is(schema, "array") {
				schema = asMap(schema["items"])
			}
			value := fmt.Sprint(h.value(schema, p.Name, 1))
			if text, ok := h.value(schema, p.Name, 1).(json.RawMessage); ok {
				value = string(text)
			}
			if h.is(p.Schema, "object") {
				name, value = name+"["+h.odd()+"]", h.odd()
			}
			query.Add(name, value)
		}
	}
	if len(query) > 0 {
		w.target += "?" + query.Encode()
	}
	for kind, content := range o.RequestBody.Content {
		w.kind = kind
		if kind == ofTar {
			w.body = tarOf(h.T, tar.Header{Name: "a"}, tar.Header{Name: "c"})
			continue
		}
		body, err := json.Marshal(h.value(content.Schema, "", 5))
		if err != nil {
			h.Fatal(err)
		}
		w.body = string(body)
	}
	return w
}

func asMap(of any) map[string]any { is, _ := of.(map[string]any); return is }

// resolved follows the reference of a schema.
func (h *hostile) resolved(schema map[string]any) map[string]any {
	if at, ok := schema["$ref"].(string); ok {
		return h.schemas[strings.TrimPrefix(at, "#/components/schemas/")]
	}
	return schema
}

// is tells whether a schema allows a type.
func (h *hostile) is(schema map[string]any, kind string) bool {
	switch is := h.resolved(schema)["type"].(type) {
	case string:
		return is == kind
	case []any:
		return slices.Contains(is, any(kind))
	}
	return false
}

// value makes a value that a schema allows, or perhaps not.
func (h *hostile) value(schema map[string]any, name string, deep int) any {
	if h.random.IntN(12) == 0 || deep == 0 {
		return []any{nil, 1, -1, 1.5, "", h.odd(), []any{}, map[string]any{}, true, []any{h.odd()}, map[string]any{h.odd(): h.odd()},
			json.RawMessage("1e999"), json.RawMessage("-0"), json.RawMessage("123456789012345678901234567890")}[h.random.IntN(14)]
	}
	schema = h.resolved(schema)
	switch {
	case h.is(schema, "object"):
		is, properties := map[string]any{}, asMap(schema["properties"])
		required, _ := schema["required"].([]any)
		for _, field := range slices.Sorted(maps.Keys(properties)) {
			if must := slices.Contains(required, any(field)); must && h.random.IntN(12) > 0 || !must && h.random.IntN(2+len(properties)/2) == 0 {
				is[field] = h.value(asMap(properties[field]), field, deep-1)
			}
		}
		if more := asMap(schema["additionalProperties"]); more != nil {
			for range h.random.IntN(3) {
				is[strings.ToValidUTF8(h.odd(), "")] = h.value(more, name, deep-1)
			}
		}
		return is
	case h.is(schema, "array"):
		is := []any{}
		for range h.random.IntN(3) {
			is = append(is, h.value(asMap(schema["items"]), name, deep-1))
		}
		return is
	case h.is(schema, "integer"), h.is(schema, "number"):
		return []any{0, 1, 2, 3, 10, 1000, 1001, -1, 1 << 31, 1 << 53, json.RawMessage("9223372036854775807"), json.RawMessage("18446744073709551615"),
			json.RawMessage("18446744073709551616"), json.RawMessage("-9223372036854775808"), 0.5, json.RawMessage("1e400")}[h.random.IntN(16)]
	case h.is(schema, "boolean"):
		return h.random.IntN(2) == 0
	}
	return h.word(name)
}

// told are meaningful texts for fields whose names contain a word.
var told = []struct {
	within string
	texts  []string
}{
	{"name /api/v1/jobs", []string{"hello"}}, {"name /api/v1/schedules", []string{"nightly"}}, {"name /api/v1/calendars", []string{"office"}}, {"/nodes/", []string{"node-1"}},
	{"job", []string{"hello"}}, {"schedule", []string{"nightly"}}, {"window", []string{"office"}}, {"calendar", []string{"office"}}, {"queue", []string{"crawl", "default"}},
	{"version", []string{"app", "app@", "sha256:"}}, {"path", []string{"a", "a/b"}}, {"cron", []string{"0 3 * * *", "* * * * * *", "@daily", "60 * * * *"}}, {"every", []string{"1h", "1ns", "1000000h"}},
	{"states", []string{"pending", "running", "error", "held", "cancelled"}}, {"on_conflict", []string{"return", "refuse", "replace"}}, {"rules", []string{"I-1", "I-99"}},
	{"types", []string{"attempt", "task.submitted", "queue."}}, {"zone", []string{"Europe/Berlin", "UTC", "Local"}}, {"query", []string{"state:error", `"a`, "since:2h -", "label:a=b limit:"}},
	{"seq", []string{"1", "2"}}, {"node", []string{"node-1"}}, {"params", []string{"n"}},
	{"since", moments}, {"until", moments}, {"from", moments}, {"to", moments}, {"at", moments}, {"for", spans}, {"grace", spans}, {"per", spans}, {"stable", spans}, {"timeout", spans}, {"delay", spans},
}

var (
	moments = []string{"1", "2", "#3", "99999", "noon", "12:00", "2h", "-2h", "2026-03-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-02-30", "2100-01-01", "10000-01-01T00:00:00Z", "1e3", "∞"}
	spans   = []string{"1h", "0", "0s", "-1h", "1ns", "9999999h", "1h30", "PT1H"}
)

// word is a text for a field, which may mean something.
func (h *hostile) word(name string) string {
	if h.random.IntN(4) == 0 {
		return h.odd()
	}
	for _, is := range told {
		if strings.Contains(name, is.within) {
			return is.texts[h.random.IntN(len(is.texts))]
		}
	}
	switch field, _, _ := strings.Cut(name, " "); field {
	case "id", "with", "task", "tasks", "after", "parent":
		return h.tasks[h.random.IntN(len(h.tasks))]
	}
	return h.odd()
}

// odd makes a meaningless text.
func (h *hostile) odd() string {
	words := []string{"", "a", "-1", "0", "1", "18446744073709551615", "9223372036854775808", "1e9", "null", "true", "[]", "{}", "..", ".", "/", "%2f", "%00", "\x00", "\r\n", "\x1b[2J", "<b>", "ü", "\xff\xfe", "\xed\xa0\x80",
		"*", ">", "a.b", "$JS", "running", strings.Repeat("x", 3000), `"`, "'; drop table tasks", "@", "#1", "%", "\u202e", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "01ARZ3NDEKTSV4RRFFQ69G5FA", "\u2028"}
	if n := h.random.IntN(len(words) + 2); n < len(words) {
		return words[n]
	}
	noise := make([]byte, h.random.IntN(40))
	for i := range noise {
		noise[i] = byte(h.random.IntN(256))
	}
	return string(noise)
}

// twists turn a request into one outside the document.
var twists = []func(*hostile, *wire){
	func(h *hostile, w *wire) { // another method
		w.method = []string{"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "FOO", "get"}[h.random.IntN(10)]
		w.patient = w.patient || strings.Contains(w.target, "/wait")
	},
	func(h *hostile, w *wire) { // another path
		path, query, has := strings.Cut(w.target, "?")
		parts := strings.Split(path, "/")
		parts[3+h.random.IntN(len(parts)-3)] = []string{"", ".", "..", "%2F", "%2e%2e", "%00", "%ff", "%", "%zz", "a;b", "a+b", "*", "~", "%F0%9F%98%80", "\x7f", "ü", "a b", "a%20b", strings.Repeat("y", 2000), "cancel", "wait"}[h.random.IntN(21)]
		if w.target = strings.Join(parts, "/") + []string{"", "", "/", "//"}[h.random.IntN(4)]; has {
			w.target += "?" + query
		}
		w.patient = w.patient || strings.Contains(w.target, "/wait")
	},
	func(h *hostile, w *wire) { // an odd query
		join := "?"
		if strings.Contains(w.target, "?") {
			join = "&"
		}
		w.target += join + []string{"nothing=1", "=1", "&&", "limit=1&limit=2", "limit=", "limit=%zz", "a;b=1", "limit[a]=1", "labels[=1", "labels[]=1", "labels=1", "labels[a]=1&labels[a]=2", "cursor=" + url.QueryEscape(h.odd()),
			"at=" + url.QueryEscape(moments[h.random.IntN(len(moments))]), "at_least=99999999", "x=" + strings.Repeat("z", 9000), "id=1", "states=", "%00=%00", "limit=１", "path=%2e%2e%2f"}[h.random.IntN(21)]
	},
	func(h *hostile, w *wire) { // odd headers
		w.header = append(w.header, []string{`If-Match: "1"`, "If-Match: *", `If-Match: W/"x"`, "If-Match: " + strings.Repeat(`"1",`, 200), "If-None-Match: *", "If-None-Match: \"", "If-Modified-Since: yesterday", "Range: bytes=0-1", "Range: bytes=-1,5-",
			"Accept: application/xml", "Accept: */*;q=0", "Accept-Encoding: gzip", "Accept-Encoding: gzip;q=x, *", "Expect: 100-continue", "Traceparent: 00-zz", "X-HTTP-Method-Override: DELETE", "Cookie: " + "a=" + strings.Repeat("b", 4000),
			"Authorization: Bearer x", "X-Forwarded-For: ::1", "Origin: null", "Sec-Fetch-Site: cross-site", "Upgrade: websocket", "Content-Language: \xff", "Forwarded: for=x", "Transfer-Encoding: gzip", "Host: other.example", "X: a\x01b"}[h.random.IntN(27)])
	},
	func(h *hostile, w *wire) { // a follower
		if w.method != http.MethodGet {
			return
		}
		w.header = append(w.header, "Accept: text/event-stream")
		if h.random.IntN(2) == 0 {
			w.header = append(w.header, "Last-Event-ID: "+[]string{"1", "0", "-1", "x", "99999999", "18446744073709551616", "1.5", "", "\xff"}[h.random.IntN(9)])
		}
		w.patient = w.patient || strings.Contains(w.target, "newer_than")
	},
	func(h *hostile, w *wire) { // another kind of body
		w.kind = []string{"", "text/plain", "application/json; charset=utf-16", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/x-tar", "application/gzip", "json", ";", "application/json;;", "application/JSON"}[h.random.IntN(11)]
	},
	func(h *hostile, w *wire) { // a compressed body, or one that claims to be
		w.header = append(w.header, "Content-Encoding: "+[]string{"gzip", "br", "identity", "deflate, gzip"}[h.random.IntN(4)])
		if h.random.IntN(2) == 0 {
			w.body = zipped(h.T, w.body)
		}
	},
	func(h *hostile, w *wire) { // another body
		deep := 1 + h.random.IntN(20_000)
		w.body = []string{"", "null", "[]", `"a"`, "1", "{", "}", "{}{}", "{} x", "\ufeff{}", "{\"a\":\"\xff\"}", "\x00", strings.Repeat("[", deep), strings.Repeat(`{"a":`, deep), `{"params":` + strings.Repeat("[", deep) + strings.Repeat("]", deep) + "}",
			`{"id":1,"id":2}`, `{"ID":"x"}`, `{"\u017feq":1}`, h.odd(), strings.Repeat("x", 1<<20+1), `{"reason":"` + strings.Repeat("r", 200_000) + `"}`, `{"definition":null}`, `{"filter":{}}`, `{"tasks":[null]}`}[h.random.IntN(24)]
	},
	func(h *hostile, w *wire) { // a body with a few other bytes, or only the beginning of one
		if w.body == "" {
			return
		}
		body := []byte(w.body)
		for range 1 + h.random.IntN(3) {
			body[h.random.IntN(len(body))] = byte(h.random.IntN(256))
		}
		w.body = string(body[:1+h.random.IntN(len(body))])
	},
	func(h *hostile, w *wire) { w.missing = 1 + h.random.IntN(1000) }, // not all of the body comes
	func(h *hostile, w *wire) { // in pieces
		w.chunked = true
		w.body = fmt.Sprintf("%x\r\n%s\r\n%s", len(w.body), w.body, []string{"0\r\n\r\n", "zz\r\n", "ffffffffffffffff1\r\n", ""}[h.random.IntN(4)])
	},
}
