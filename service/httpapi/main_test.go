package httpapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"millrace/events/jet"
	"millrace/events/jet/rights"
	"millrace/events/jet/streams"
	"millrace/integration/harness"
	"millrace/internal/testkit"
	"millrace/projections"
	"millrace/service/answers"
	"millrace/service/client"
)

// The tests that bound a time or memory run alone, before the others.
func TestMain(m *testing.M) {
	testkit.AtOnce(10) // most wait for servers and followers
	os.Exit(testkit.Thrifty(m).Run())
}

// patience is how long something may take; only a failure takes so long.
const patience = time.Minute

// secret is the credential of the machine in tests.
const secret = "MACHINE"

// site is a service over HTTP with a log behind it.
type site struct {
	*testing.T
	*Server
	store *jet.Store
	// publish puts a message on a subject, whatever it is.
	publish func(subject string, data []byte) error
	tls     *tls.Config // nil without TLS
	doc     *jsonschema.Compiler
	plain   map[string]any // the document
}

// open starts a service. Change is given it before it runs, and may be nil.
func open(t *testing.T, change func(*Server)) *site {
	t.Helper()
	return openWith(t, Config{Address: "127.0.0.1:0"}, change)
}

// openWith starts a service that is set up in a certain way.
func openWith(t *testing.T, config Config, change func(*Server)) *site {
	t.Helper()
	log := harness.Open(t, streams.Layout{})
	nc, store := log.Conn, log.Store
	model, err := projections.Open(filepath.Join(t.TempDir(), "view.db"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := Listen(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	s.Tokens = store
	s.Desk = answers.NewDesk(&answers.Service{Conn: nc, Client: client.New(store, ""), Model: model, Stored: model})
	s.Machine = &Machine{Secret: secret, Caller: Caller{Name: "ada", Role: rights.Operator}}
	s.Version, s.Log = "0.0.0", slog.New(slog.DiscardHandler)
	if change != nil {
		change(s)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() {
		ended <- (&projections.Projector{Log: store, Store: model, Observers: []projections.Observer{s}}).Run(ctx)
	}()
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		for range 2 {
			if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		if err := model.Close(); err != nil {
			t.Error(err)
		}
	})
	return &site{T: t, Server: s, store: store, publish: nc.Publish}
}

// answer is a response.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// send sends a request as the machine's user, unless a header says otherwise. Headers are pairs; ""
// leaves one out.
func (s *site) send(method, path, body string, header ...string) answer {
	s.Helper()
	got, err := s.try(method, path, body, header...)
	if err != nil {
		s.Fatalf("%s %s: %v", method, path, err)
	}
	return got
}

// opens is how a browser asks for an address: the path, and headers without a token. Its host resolves to
// this machine in a browser.
func (s *site) opens(address string) (path string, header []string) {
	s.Helper()
	u, err := url.Parse(address)
	if err != nil {
		s.Fatal(err)
	}
	return strings.TrimPrefix(u.RequestURI(), s.config.Prefix), []string{"Authorization", "", "Host", u.Host}
}

func (s *site) try(method, path, body string, header ...string) (answer, error) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, s.URL()+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+secret)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		switch {
		case header[i] == "Host":
			r.Host = header[i+1]
		case header[i+1] == "":
			r.Header.Del(header[i])
		default:
			r.Header.Set(header[i], header[i+1])
		}
	}
	t := http.Transport{DisableKeepAlives: true, DisableCompression: true, TLSClientConfig: s.tls, ForceAttemptHTTP2: true}
	got, err := t.RoundTrip(r)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = got.Body.Close() }()
	text, err := io.ReadAll(got.Body)
	is := answer{got.StatusCode, got.Header, text}
	if wrong := undeclared(method, path, is); err == nil && wrong != "" {
		s.Errorf("%s %s: %s: %.500s", method, path, wrong, text)
	}
	return is, err
}

// want sends a request that must get a status, and decodes the answer.
func (s *site) want(status int, method, path, body string, into any, header ...string) answer {
	s.Helper()
	got := s.send(method, path, body, header...)
	if got.status != status {
		s.Fatalf("%s %s is answered with %d, want %d: %s", method, path, got.status, status, got.body)
	}
	if into != nil {
		if err := json.Unmarshal(got.body, into); err != nil {
			s.Fatalf("%s %s: %v: %s", method, path, err, got.body)
		}
	}
	return got
}

// refused sends a request that must come to a problem.
func (s *site) refused(status int, kind, method, path, body string, header ...string) (p answers.Problem) {
	s.Helper()
	got := s.want(status, method, path, body, &p, header...)
	if p.Type != "urn:millrace:"+kind || p.Status != status || p.Next == "" || got.header.Get("Content-Type") != "application/problem+json" {
		s.Errorf("%s %s is refused with %s (%s), want %s", method, path, got.body, got.header.Get("Content-Type"), kind)
	}
	return p
}

// documented holds an answer against the document.
func (s *site) documented(o *operation, got answer) {
	s.Helper()
	if s.doc == nil {
		s.doc = jsonschema.NewCompiler()
		s.want(200, "GET", "/openapi.json", "", &s.plain)
		text, err := jsonschema.UnmarshalJSON(bytes.NewReader(s.send("GET", "/openapi.json", "").body))
		if err != nil {
			s.Fatal(err)
		}
		if err := s.doc.AddResource("doc.json", text); err != nil {
			s.Fatal(err)
		}
	}
	escape := strings.NewReplacer("~", "~0", "/", "~1").Replace
	at := fmt.Sprintf("doc.json#/paths/%s/%s/responses/200/content/application~1json/schema", escape(prefix+o.path), strings.ToLower(o.method))
	if got.status >= 400 {
		at = "doc.json#/components/schemas/api.Problem"
	}
	schema, err := s.doc.Compile(at)
	if err != nil {
		s.Fatalf("%s: %v", at, err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(got.body))
	if err != nil {
		s.Fatalf("%s %s: %v: %s", o.method, o.path, err, got.body)
	}
	if err := schema.Validate(value); err != nil {
		s.Errorf("%s %s is not as the document says: %v\n%s", o.method, o.path, err, got.body)
	}
}

// last is the sequence at which the log ends.
func (s *site) last() uint64 {
	s.Helper()
	seq, err := s.store.Last(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	return seq
}
