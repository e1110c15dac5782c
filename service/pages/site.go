// Package pages shows Millrace in a browser. A page is made from the world at a moment, as
// [answers.Desk.See] shows it, so the past needs no pages of its own. Its buttons perform verbs of the
// service, under the rights of the user. The package holds no rules about tasks; it decides only
// how things look.
//
// A page is a file with a [page] and a file of templates of the same name. docs/pages.md says how
// to add one.
//
// It also makes forms for the parameters of jobs, and turns what was typed into them into
// parameters.
//
// It also holds the files that pages load beside their HTML: scripts, styles and an icon, those of
// Millrace in own, and those that others have made in foreign, which a manifest lists.
package pages

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"millrace/events"
	"millrace/events/jet/rights"
	"millrace/internal/metrics"
	"millrace/projections/view"
	"millrace/service/answers"
	"millrace/service/client"
	"millrace/service/httpapi"
	"millrace/service/inspect"
	"millrace/task/value"
)

// Site answers browsers. Create it with [New].
type Site struct {
	// Settings are those by which duties are judged, for incident files.
	Settings map[string]string

	server *httpapi.Server
	mux    *http.ServeMux
	// The first page that is drawn makes them: most processes that could draw one never do.
	shapes  func() map[string]*shape // by the names of pages
	late    metrics.Series
	ran     usual
	changed changes
	audits  *inspect.Auditor
	shelf   inspect.Shelf // open incident files
	begun   begun
	// fetching are the callers for whom incident files are being made.
	fetching fetching
	// patience is how long an action waits for lists to show its effect.
	patience time.Duration
}

// page is one page.
type page struct {
	// name is the name of its templates, and gives its path if that is "".
	name string
	// path is a pattern of [http.ServeMux], without the method.
	path string
	// entry is its name in the navigation; "" if it is not there.
	entry string
	// verb is the verb that a viewer of it must be allowed to use.
	verb rights.Verb
	// takesForm tells that its form is posted to its own path; only a path that ends in /do changes
	// anything.
	takesForm bool
	// inFiles tells that incident files have it, too, and onlyInFiles that the server does not.
	inFiles, onlyInFiles bool
	// show finds out what is on it: the Data of its templates.
	show func(ctx context.Context, l *look) (any, error)
}

// pages are all pages, in the order of the navigation.
var pages = []page{
	overviewPage, tasksPage, bulkPage, taskPage, comparePage, runPage, graphPage, jobsPage, jobPage, editorPage, scheduleEditorPage, schedulesPage, schedulePage, calendarsPage, calendarPage, calendarEditorPage, nodesPage, nodePage, queuesPage,
	deadPage, buryPage, eventsPage, eventPage, diffPage, verifyPage, auditPage, incidentsPage, stepsPage,
}

// New makes the pages of a server. They are served once they are its [httpapi.Server.Pages].
func New(server *httpapi.Server) *Site {
	s := &Site{server: server, mux: http.NewServeMux(), audits: inspect.New(), patience: seenWithin}
	s.shapes = sync.OnceValue(func() map[string]*shape { return shapes(pages) })
	server.Largest = largest
	for i := range pages {
		p := &pages[i]
		if p.inFiles {
			s.mux.HandleFunc("GET /incidents/{file}"+p.path, s.known(func(w http.ResponseWriter, r *http.Request, c httpapi.Caller) { s.showFile(w, r, c, p) }))
		}
		if p.onlyInFiles {
			continue
		}
		s.mux.HandleFunc("GET "+p.path, s.known(func(w http.ResponseWriter, r *http.Request, c httpapi.Caller) { s.show(w, r, c, p) }))
		if p.takesForm {
			s.mux.HandleFunc("POST "+p.path, s.known(func(w http.ResponseWriter, r *http.Request, c httpapi.Caller) { s.show(w, r, c, p) }))
		}
	}
	s.mux.HandleFunc("POST /do/{verb}", s.known(s.act))
	s.mux.HandleFunc("POST /run/{of}/{name}", s.known(s.run))
	s.mux.HandleFunc("POST /bulk/{do}", s.known(s.bulk))
	s.mux.HandleFunc("GET /tasks/export", s.known(s.export))
	s.mux.HandleFunc("GET /tasks/complete", s.known(s.complete))
	s.mux.HandleFunc("GET /incidents/export", s.known(s.exportFile))
	s.mux.HandleFunc("POST /incidents/do", s.known(s.openFile))
	s.mux.HandleFunc("POST /incidents/{file}/close", s.known(s.closeFile))
	s.mux.HandleFunc("GET /tasks/{id}/output", s.known(s.output))
	s.mux.HandleFunc("GET /tasks/{id}/records", s.known(s.records))
	s.mux.HandleFunc("GET /tasks/{id}/lines", s.known(s.lines))
	s.mux.HandleFunc("GET /tasks/{id}/hit", s.known(s.hit))
	s.mux.HandleFunc("GET /incidents/{file}/tasks/{id}/lines", s.known(s.lines))
	s.mux.HandleFunc("GET /incidents/{file}/tasks/{id}/hit", s.known(s.hit))
	s.mux.HandleFunc("GET /"+Pattern, func(w http.ResponseWriter, r *http.Request) { All().ServeHTTP(w, r) })
	return s
}

// Observe takes the changes of the log from the projector.
func (s *Site) Observe(steps []events.Step) { s.late.Observe(steps) }

// dropEvery is how often unviewed incident files are closed.
const dropEvery = time.Minute

// Run performs background work of pages, until ctx ends; then it returns nil.
func (s *Site) Run(ctx context.Context) error {
	var dropping sync.WaitGroup
	defer dropping.Wait()
	dropping.Go(func() {
		drop, ask := time.NewTicker(dropEvery), time.NewTicker(metrics.Every)
		defer drop.Stop()
		defer ask.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-drop.C:
				s.shelf.Drop(s.server.Desk.Now())
			case <-ask.C:
				_ = s.askOldest(ctx) // what is not known now is a gap in the plot
			}
		}
	})
	return s.audits.Serve(ctx, s.server.Desk.Verify, s.server.Desk.Now)
}

// askOldest notes for the plots since when the task has waited that has waited longest.
func (s *Site) askOldest(ctx context.Context) error {
	return s.server.Desk.See(ctx, "", "", func(ctx context.Context, sight *answers.Sight) error {
		oldest, err := oldestOf(ctx, sight.Sums)
		if err == nil {
			s.late.Wait(sight.Now, oldest)
		}
		return err
	})
}

// begun remembers for a while when the log begins.
type begun struct {
	mu        sync.Mutex
	at, asked time.Time // guarded by mu
}

// begins returns when the log begins; otherwise if that cannot be read.
func (s *Site) begins(ctx context.Context, log answers.Log, otherwise time.Time) time.Time {
	s.begun.mu.Lock()
	defer s.begun.mu.Unlock()
	now := s.server.Desk.Now()
	if s.begun.at.IsZero() || now.Sub(s.begun.asked) > time.Minute {
		first, found, err := log.PointAt(ctx, view.Moment{Seq: 1}) // a single message costs less than a page
		if err == nil && !found {
			var records []events.Record
			if records, err = log.Page(ctx, 1, 1); len(records) > 0 {
				first.At, found = records[0].Stored, true
			}
		}
		if err == nil && found {
			s.begun.at, s.begun.asked = first.At, now
		}
	}
	if s.begun.at.IsZero() {
		return otherwise
	}
	return s.begun.at
}

// policy is what a browser may do with a page: load and send to where the page comes from, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

type callerKey struct{}

// Serve answers a request for a page. who authenticates the caller.
func (s *Site) Serve(w http.ResponseWriter, r *http.Request, who func() (httpapi.Caller, error)) {
	w.Header().Set("Content-Security-Policy", policy)
	_, pattern := s.mux.Handler(r)
	if pattern == "" {
		err := answers.ErrNothing
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			err = answers.ErrMethod
		}
		c, stranger := who()
		if stranger != nil { // who is not let in does not hear what there is
			err = stranger
		}
		s.refuse(w, r, c, err)
		return
	}
	s.mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, who)))
}

// known wraps a handler for authenticated callers.
func (s *Site) known(handle func(w http.ResponseWriter, r *http.Request, c httpapi.Caller)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who, _ := r.Context().Value(callerKey{}).(func() (httpapi.Caller, error)) // set by Serve
		c, err := who()
		if err != nil {
			s.refuse(w, r, c, err)
			return
		}
		handle(w, r, c)
	}
}

// show answers with a page, or sends its parts whenever they change.
func (s *Site) show(w http.ResponseWriter, r *http.Request, c httpapi.Caller, p *page) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	switch {
	case err != nil:
		s.refuse(w, r, c, client.Wrong(value.Plainly(err)))
	case !c.Role.May(p.verb):
		s.refuse(w, r, c, answers.ErrRole)
	case r.Method == http.MethodPost && r.ParseForm() != nil:
		s.refuse(w, r, c, client.Wrongf("the form cannot be read"))
	case r.Method != http.MethodPost && follows(r):
		key := "page " + string(c.Role) + " " + r.URL.RequestURI()
		s.server.FollowParts(w, r, c, key, func(ctx context.Context) (parts []httpapi.Part, err error) {
			err = s.look(ctx, r, c, p, query, func(l *look) error {
				parts, err = s.shapes()[p.name].parts(l)
				return err
			})
			return parts, err
		})
	default:
		var body []byte
		err := s.look(r.Context(), r, c, p, query, func(l *look) (err error) {
			body, err = s.shapes()[p.name].whole(l)
			return err
		})
		var to elsewhere
		switch {
		case errors.As(err, &to):
			seeOther(w, r, string(to))
			return
		case err != nil:
			s.refuse(w, r, c, err)
			return
		}
		s.server.Send(w, r, "text/html; charset=utf-8", body)
	}
}

// follows tells whether the caller wants to follow the page.
func follows(r *http.Request) bool {
	return httpapi.Accepts(r.Header.Get("Accept"), "text/event-stream")
}

// elsewhere is the path to redirect to.
type elsewhere string

func (e elsewhere) Error() string { return "see " + string(e) }

// look finds out what is on a page, and draws it.
func (s *Site) look(ctx context.Context, r *http.Request, c httpapi.Caller, p *page, query url.Values, draw func(*look) error) error {
	l := s.newLook(r, c, p, query)
	return s.server.Desk.Draw(ctx, c.Name, func() error {
		return s.server.Desk.See(ctx, c.Name, l.At, func(ctx context.Context, sight *answers.Sight) (err error) {
			l.Sight = sight
			if l.Data, err = p.show(ctx, l); err != nil {
				return err
			}
			return draw(l)
		})
	})
}

// refuse shows on a page what is wrong, and what to do next. A program, which unlike a browser does
// not ask for HTML by name, gets a problem.
func (s *Site) refuse(w http.ResponseWriter, r *http.Request, c httpapi.Caller, err error) {
	if !httpapi.Accepts(r.Header.Get("Accept"), "text/html") {
		s.server.Refuse(w, err)
		return
	}
	problem := problemOf(err)
	if errors.Is(err, answers.ErrNothing) { // there is no word of documents for programs
		problem.Title, problem.Detail, problem.Next = "Page not found", "there is no page at this address", "go to one of the pages above"
	}
	if problem.Status == http.StatusInternalServerError {
		s.server.Log.Warn("a page has failed", "path", r.URL.Path, "error", err)
	}
	query, _ := url.ParseQuery(r.URL.RawQuery) // as much of it as is valid
	l := s.newLook(r, c, &page{name: "error"}, query)
	l.Title, l.Data, l.Sight = problem.Title, wrongData{Problem: &problem, Stranger: problem.Status == http.StatusUnauthorized, To: l.Back()}, &answers.Sight{}
	if c.Name != "" && problem.Status < http.StatusInternalServerError && !errors.Is(err, answers.ErrNothing) {
		// So the page keeps the bar of moments, with what was typed there.
		_ = s.server.Desk.See(r.Context(), c.Name, "", func(_ context.Context, sight *answers.Sight) error { l.Sight = sight; return nil }) // or has none
	}
	switch {
	case errors.Is(err, answers.ErrConfirm):
		l.Data = wrongData{Problem: &problem, Key: query.Get("key")}
	case r.URL.Path == "/login" && r.ParseForm() == nil: // a token was tried, or will be
		l.Data = wrongData{Problem: &problem, Stranger: true, To: r.PostForm.Get("to"), Tried: r.Method == http.MethodPost}
	case r.Method == http.MethodPost:
		l.Data = wrongData{Problem: &problem, Stranger: problem.Status == http.StatusUnauthorized}
	}
	body, err := s.shapes()["error"].whole(l)
	if err != nil {
		body = []byte(problem.Title)
	}
	httpapi.Later(w.Header(), problem.Status, err)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(problem.Status)
	_, _ = w.Write(body) // the receiver may be gone
}

// inWords are the words of pages for problems whose own words are for programs.
var inWords = map[string][2]string{ // title and next
	"bad-request": {"That cannot be shown", "change it, or go to one of the pages above"},
	"method":      {"This cannot be done here", "go to one of the pages above"},
	"rate":        {"Too many requests have come from you", "wait a moment, and load the page again"},
	"role":        {"Your role does not allow that", "have an operator do it, or log in with a token of another role"},
	"followers":   {"You follow as many pages as you may", "close some of them"},
	"slow":        {"The request has come too slowly", "send it again"},
	"media":       {"The form cannot be read", "send it again"},
}

// problemOf explains an error to a person.
func problemOf(err error) answers.Problem {
	problem := answers.ProblemOf(err)
	if words, ok := inWords[strings.TrimPrefix(problem.Type, "urn:millrace:")]; ok {
		problem.Title, problem.Next = words[0], words[1]
	}
	return problem
}

// wrongData is the data of the page of a refused request.
type wrongData struct {
	*answers.Problem
	// Stranger tells whether the caller is unknown, To is the page that it wanted, and Tried tells
	// whether it has entered a token.
	Stranger bool
	To       string
	Tried    bool
	// Key is the secret of a link that its user must confirm; "" if it is about something else.
	Key string
}

// jsonString encodes a text as JSON.
func jsonString(text []byte) ([]byte, error) { return json.Marshal(string(text)) }

//go:embed templates
var templates embed.FS

// livePrefix begins the names of templates that are redrawn for followers. Each fills the element
// whose id is the rest of its name.
const livePrefix = "live:"

// shape is the templates of a page.
type shape struct {
	set  *template.Template
	live []string // names of its parts, in order
}

// shapes reads the templates of pages: layout.html holds what all have in common, and each page has
// a file with its own name.
func shapes(all []page) map[string]*shape {
	made := map[string]*shape{}
	common := template.Must(template.New("layout.html").Funcs(functions).ParseFS(templates, "templates/layout.html", "templates/common.html"))
	for _, p := range append(slices.Clone(all), page{name: "error"}) {
		set := template.Must(template.Must(common.Clone()).ParseFS(templates, "templates/"+p.name+".html"))
		is := &shape{set: set}
		for _, t := range set.Templates() {
			if part, ok := strings.CutPrefix(t.Name(), livePrefix); ok {
				is.live = append(is.live, part)
			}
		}
		slices.Sort(is.live)
		made[p.name] = is
	}
	return made
}

// whole draws a page.
func (s *shape) whole(l *look) ([]byte, error) { return s.draw("layout.html", l) }

// parts draws the parts of a page that change by themselves.
func (s *shape) parts(l *look) ([]httpapi.Part, error) {
	parts := make([]httpapi.Part, len(s.live))
	for i, name := range s.live {
		text, err := s.draw(livePrefix+name, l)
		if err != nil {
			return nil, err
		}
		if text, err = jsonString(text); err != nil {
			return nil, err
		}
		parts[i] = httpapi.Part{Name: name, Text: text, Moving: l.moving}
	}
	return parts, nil
}

func (s *shape) draw(name string, l *look) ([]byte, error) {
	var b bytes.Buffer
	if err := s.set.ExecuteTemplate(&b, name, l); err != nil {
		return nil, err
	}
	return visible(b.Bytes()), nil
}

// visible replaces characters that are invisible, or that change how others are seen, by a dot:
// control characters, and those that change the direction of text. Templates contain none, so these
// come from foreign names and texts.
func visible(text []byte) []byte {
	if !bytes.ContainsFunc(text, hidden) {
		return text
	}
	b := make([]byte, 0, len(text))
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if hidden(r) {
			b = append(b, "·"...)
		} else {
			b = append(b, text[:size]...)
		}
		text = text[size:]
	}
	return b
}

func hidden(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) || r == utf8.RuneError || r == '\u2028' || r == '\u2029'
}

//go:embed own foreign
var files embed.FS

// asset is a file that pages load. It never changes under its path, which contains its digest.
type asset struct {
	digest string
	kind   string
	body   []byte
	zipped func() []byte
}

// Assets are all assets, by their names.
type Assets map[string]*asset

// All reads the assets.
var All = sync.OnceValue(func() Assets {
	all := Assets{}
	for _, dir := range []string{"own", "foreign"} {
		for _, e := range value.Must(fs.ReadDir(files, dir)) { // all are parts of the program
			kind := mime.TypeByExtension(path.Ext(e.Name()))
			body := value.Must(files.ReadFile(dir + "/" + e.Name()))
			if kind == "" || strings.HasSuffix(e.Name(), ".txt") {
				continue // no page loads it
			}
			sum := sha256.Sum256(body)
			all[e.Name()] = &asset{hex.EncodeToString(sum[:8]), kind, body, sync.OnceValue(func() []byte { return zip(body) })}
		}
	}
	return all
})

func zip(body []byte) []byte {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level is valid
	_, _ = z.Write(body)                                  // a bytes.Buffer takes everything
	_ = z.Close()
	return b.Bytes()
}

// Pattern is the path at which [Assets.ServeHTTP] is asked, relative to where the pages begin.
const Pattern = "assets/{digest}/{name}"

// Path returns the path of an asset, relative to where the pages begin.
func (all Assets) Path(name string) string {
	if a := all[name]; a != nil {
		return "assets/" + a.digest + "/" + name
	}
	return "assets/none/" + name
}

// ServeHTTP sends an asset to any caller: assets contain no data.
func (all Assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := all[r.PathValue("name")]
	if a == nil || a.digest != r.PathValue("digest") {
		http.Error(w, "there is nothing here; load the page again", http.StatusNotFound)
		return
	}
	h := w.Header()
	h.Set("Content-Type", a.kind)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Vary", "Accept-Encoding")
	body := a.body
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = a.zipped()
	}
	_, _ = w.Write(body) // the receiver may be gone
}
