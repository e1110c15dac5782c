package pages

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/html"

	"millrace/events"
	"millrace/events/jet"
	"millrace/events/jet/rights"
	"millrace/events/jet/streams"
	"millrace/integration/harness"
	"millrace/internal/testkit"
	"millrace/projections"
	"millrace/service/answers"
	"millrace/service/client"
	"millrace/service/httpapi"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/duties"
	"millrace/task/node"
)

func TestMain(m *testing.M) { os.Exit(testkit.Thrifty(m).Run()) }

// patience is how long something may take; only a failure takes so long.
const patience = time.Minute

// place is a site with a log behind it, on which tasks of all kinds are.
type place struct {
	*testing.T
	*Site
	store  *jet.Store
	client *client.Client
	model  *projections.Store

	mu     sync.Mutex
	caller *httpapi.Caller // guarded by mu; nil for one unknown to the server
}

// open makes a site whose lists follow the log.
func open(t *testing.T) *place {
	t.Helper()
	p := still(t)
	p.project()
	return p
}

// project has lists follow the log from now on.
func (p *place) project() {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- (&projections.Projector{Log: p.store, Store: p.model}).Run(ctx) }()
	p.Cleanup(func() {
		stop()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			p.Error(err)
		}
	})
}

// still makes a site whose lists stay empty until the test projects the log.
func still(t *testing.T) *place {
	t.Helper()
	log := harness.Open(t, streams.Layout{})
	nc, store := log.Conn, log.Store
	model, err := projections.Open(filepath.Join(t.TempDir(), "view.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := model.Close(); err != nil {
			t.Error(err)
		}
	})
	s, err := httpapi.Listen(t.Context(), httpapi.Config{Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	c := client.New(store, "")
	s.Desk = answers.NewDesk(&answers.Service{Conn: nc, Client: c, Model: model, Deadlines: model, Rules: duties.Settings{StartDeadline: time.Hour, AckWait: time.Minute}})
	s.Log = slog.New(slog.DiscardHandler)
	return &place{T: t, Site: New(s), store: store, model: model, client: c, caller: &httpapi.Caller{Name: "ada", Role: rights.Operator}}
}

// as sets the role of the caller of later requests; "" is a caller unknown to the server.
func (p *place) as(role rights.Role) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.caller = nil; role != "" {
		p.caller = &httpapi.Caller{Name: "ada", Role: role}
	}
}

// ServeHTTP answers as the server does that lets callers in.
func (p *place) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Accept") == "" {
		r.Header.Set("Accept", "text/html") // as browsers do
	}
	p.Serve(w, r, func() (httpapi.Caller, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.caller == nil {
			return httpapi.Caller{}, answers.ErrWho
		}
		return *p.caller, nil
	})
}

// get asks for a page, which must come with a status.
func (p *place) get(status int, path string) (string, http.Header) {
	p.Helper()
	w := httptest.NewRecorder()
	p.ServeHTTP(w, httptest.NewRequestWithContext(p.Context(), http.MethodGet, path, nil))
	if w.Code != status {
		p.Fatalf("%s is answered with %d, want %d: %s", path, w.Code, status, w.Body)
	}
	return w.Body.String(), w.Header()
}

// press sends a form.
func (p *place) press(status int, path string, fields ...string) (string, http.Header) {
	p.Helper()
	form := url.Values{}
	for i := 0; i+1 < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	r := httptest.NewRequestWithContext(p.Context(), http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	if w.Code != status {
		p.Fatalf("%s is answered with %d, want %d: %s", path, w.Code, status, w.Body)
	}
	return w.Body.String(), w.Header()
}

// submit makes a task, and waits until lists show it.
func (p *place) submit(s birth.Submission) task.ID {
	p.Helper()
	r, err := p.client.Submit(p.Context(), s)
	if err != nil {
		p.Fatal(err)
	}
	p.seen()
	return r.ID
}

// node records the events of a node, from its first one on.
func (p *place) node(id node.ID, happens ...node.Event) {
	p.Helper()
	last := uint64(0)
	for _, e := range happens {
		var err error
		f := &events.Fact{ID: events.NewID(p.client.Now()), At: p.client.Now(), Type: events.TypeOf(e), Node: id, Event: e}
		if last, err = p.store.Append(p.Context(), f, last); err != nil {
			p.Fatal(err)
		}
	}
	p.seen()
}

// says checks that a page has some texts, and that no text on it is taken for markup.
func (p *place) says(page string, texts ...string) {
	p.Helper()
	for _, text := range texts {
		if !strings.Contains(page, text) {
			p.Errorf("a page does not say %q: %s", text, page)
		}
	}
	p.harmless("a page", page)
}

// seen waits until the lists show what is in the log.
func (p *place) seen() {
	p.Helper()
	last, err := p.store.Last(p.Context())
	for err == nil && p.server.Desk.Reached() < last {
		err = p.server.Desk.News(p.Context(), p.server.Desk.Reached())
	}
	if err != nil {
		p.Fatal(err)
	}
}

// element is an element of a page.
type element struct {
	name string
	attr map[string]string
}

// elements reads a page as a browser does.
func elements(t *testing.T, page string) (all []element) {
	t.Helper()
	z := html.NewTokenizer(strings.NewReader(page))
	for {
		switch z.Next() {
		case html.ErrorToken:
			if !errors.Is(z.Err(), io.EOF) {
				t.Fatal(z.Err())
			}
			return all
		case html.StartTagToken, html.SelfClosingTagToken:
			token := z.Token()
			e := element{token.Data, map[string]string{}}
			for _, a := range token.Attr {
				e.attr[a.Key] = a.Val
			}
			all = append(all, e)
		}
	}
}

// links are the links of a page and what it loads.
func links(t *testing.T, page string) []string {
	t.Helper()
	return linksOf(elements(t, page))
}

func linksOf(page []element) (all []string) {
	for _, e := range page {
		for _, name := range []string{"href", "src", "action", "data-follow"} {
			if to, ok := e.attr[name]; ok && !strings.HasPrefix(to, "#") && !slices.Contains(all, to) {
				all = append(all, to)
			}
		}
	}
	return all
}
