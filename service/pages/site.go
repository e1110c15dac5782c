// Package pages shows Millrace in a browser. A page is made from the world at a moment, as
// [answers.Desk.See] shows it, so the past needs no pages of its own. Its buttons perform verbs of the
// service, under the rights of the user. The package holds no rules about tasks; it decides only
// how things look.
//
// A page is two files of one name, and a line in the list pages:
//
//   - NAME.go has a [page]: its path, its name in the navigation, the verb that a viewer must be
//     allowed, and show, which gets a look at the world of the chosen moment. A part that may fail
//     alone embeds a panel. Changes are verbs of the service; do asks for them when its form is sent.
//   - templates/NAME.html defines "main". A part that changes by itself is a template named
//     live:ID, in an element with that id. $.Link makes links, $.Time times, the template "state"
//     shows states, and .Buttons, from look.buttons, the buttons of a thing. A [list] has columns of
//     package wording, which the command line has, too: the template says how their cells link.
//
// A button is of the entry of its verb in package answers (Button): on which pages it stands, what it
// says and asks for, and which things have it. Verbs without a thing in their path are for many tasks.
//
// Tests walk over all pages of paths in site_test.go: add the new one there. `task test:browser`
// opens all pages in Chromium, light, dark, 360 pixels wide and as of the past.
//
// It also makes forms for the parameters of jobs, and turns what was typed into them into
// parameters.
//
// It also holds the files that pages load beside their HTML: scripts, styles and an icon, those of
// Millrace in own, and those that others have made in foreign, which a manifest lists.
package pages

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"millrace/events"
	"millrace/events/jet/rights"
	"millrace/internal/metrics"
	"millrace/projections/view"
	"millrace/service/answers"
	"millrace/service/client"
	"millrace/service/httpapi"
	"millrace/service/inspect"
	"millrace/task"
	"millrace/task/value"
)

// Site answers browsers. Create it with [New].
type Site struct {
	// Settings are those by which duties are judged, for incident files.
	Settings map[string]string

	server *httpapi.Server
	mux    *http.ServeMux
	// The first page that is drawn makes them: most processes that could draw one never do.
	shapes   func() map[string]*shape // by the names of pages
	late     metrics.Series
	machines machines
	usual    memo[usualKey, figures]
	needs    memo[needsKey, found]
	altered  memo[view.Thing, []view.Alteration]
	audits   *inspect.Auditor
	shelf    inspect.Shelf // open incident files
	begun    memo[time.Time, time.Time]
	good     memo[goodKey, *task.Task]
	latest   memo[latestKey, []view.Run]
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
	// takesForm tells that its form is posted to its own path, and changes nothing.
	takesForm bool
	// inFiles tells that incident files have it, too, and onlyInFiles that the server does not.
	inFiles, onlyInFiles bool
	// do does what its form asks for, before it is shown; nil if it has no such form. The error may be
	// an [elsewhere], as that of show.
	do func(ctx context.Context, l *look) error
	// show finds out what is on it: the Data of its templates.
	show func(ctx context.Context, l *look) (any, error)
}

// pages are all pages, in the order of the navigation.
var pages = []page{
	overviewPage, tasksPage, bulkPage, taskPage, comparePage, runPage, graphPage, jobsPage, jobPage, editorPage, schedulesPage, schedulePage, calendarsPage, calendarPage, bundlesPage, bundlePage, nodesPage, nodePage, queuesPage,
	deadPage, eventsPage, eventPage, diffPage, verifyPage, auditPage, incidentsPage, stepsPage,
}

// New makes the pages of a server. They are served once they are its [httpapi.Server.Pages].
func New(server *httpapi.Server) *Site {
	s := &Site{server: server, mux: http.NewServeMux(), audits: inspect.New(), patience: seenWithin}
	s.needs.most = needsKept
	s.shapes = sync.OnceValue(func() map[string]*shape { return shapes(pages) })
	server.Largest = largest
	for i := range pages {
		p := &pages[i]
		if p.inFiles {
			s.handle("GET /incidents/{file}"+p.path, p, (*look).page)
		}
		if p.onlyInFiles {
			continue
		}
		s.handle("GET "+p.path, p, (*look).page)
		if p.takesForm || p.do != nil {
			s.handle("POST "+p.path, p, (*look).page)
		}
	}
	output := &page{name: "task", verb: rights.TaskOutput}
	s.handle("POST /do/{verb}", &page{}, (*look).act)
	for _, method := range []string{"GET ", "POST "} {
		s.mux.HandleFunc(method+"/act/{do}/{key}", s.link)
	}
	s.handle("GET /tasks/export", &tasksPage, (*look).export)
	s.handle("GET /tasks/complete", &tasksPage, (*look).complete)
	s.handle("GET /incidents/export", &incidentsPage, (*look).exportFile)
	s.handle("POST /incidents/do", &incidentsPage, (*look).openFile)
	s.handle("POST /incidents/{file}/close", &incidentsPage, (*look).closeFile)
	s.handle("GET /tasks/{id}/records", &page{verb: rights.TaskRecords}, (*look).records)
	s.handle("GET /tasks/{id}/output", output, (*look).output)
	for _, within := range []string{"", "/incidents/{file}"} {
		s.handle("GET "+within+"/tasks/{id}/lines", output, (*look).lines)
		s.handle("GET "+within+"/tasks/{id}/hit", output, (*look).hit)
	}
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
		drop, ask, measure := time.NewTicker(dropEvery), time.NewTicker(metrics.Every), time.NewTicker(machineEvery)
		defer drop.Stop()
		defer ask.Stop()
		defer measure.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-drop.C:
				s.shelf.Drop(s.server.Desk.Now())
			case <-ask.C:
				_ = s.askOldest(ctx) // what is not known now is a gap in the plot
			case <-measure.C:
				_ = s.askMachines(ctx) // nor this
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

// askMachines notes what the nodes say of their machines.
func (s *Site) askMachines(ctx context.Context) error {
	return s.server.Desk.See(ctx, "", "", func(ctx context.Context, sight *answers.Sight) error {
		p, ok := sight.View.(view.Present)
		if !ok {
			return nil
		}
		beats, err := p.Beats(ctx)
		if err == nil {
			s.machines.note(beats)
		}
		return err
	})
}

// memo remembers what takes long to find out.
type memo[K comparable, V any] struct {
	most int // how much it remembers before it begins anew; by default mostKept
	mu   sync.Mutex
	is   map[K]V // guarded by mu
}

const (
	mostKept  = 1000
	needsKept = 10 // each may be long
)

// get returns what is known under a key, or else what find finds, and remembers that if it does not fail.
func (m *memo[K, V]) get(key K, find func() (V, error)) (V, error) {
	m.mu.Lock()
	is, there := m.is[key]
	m.mu.Unlock()
	if there {
		return is, nil
	}
	is, err := find()
	if err != nil {
		return is, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.is == nil || len(m.is) >= cmp.Or(m.most, mostKept) {
		m.is = map[K]V{}
	}
	m.is[key] = is
	return is, nil
}

// begins returns when the log begins; otherwise if that cannot be read, or the log is empty.
func (s *Site) begins(ctx context.Context, log answers.Log, otherwise time.Time) time.Time {
	at, err := s.begun.get(s.server.Desk.Now().Truncate(time.Minute), func() (time.Time, error) {
		first, found, err := log.PointAt(ctx, view.Moment{Seq: 1}) // a single message costs less than a page
		if err != nil || found {
			return first.At, err
		}
		records, err := log.Page(ctx, 1, 1)
		if err == nil && len(records) == 0 {
			err = client.ErrNoMessage
		}
		if err != nil {
			return otherwise, err
		}
		return records[0].Stored, nil
	})
	if err != nil {
		return otherwise
	}
	return at
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

// handle has known callers that may see a page get answers from do, at a pattern of [http.ServeMux].
func (s *Site) handle(pattern string, p *page, do func(l *look, w http.ResponseWriter) error) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		who, _ := r.Context().Value(callerKey{}).(func() (httpapi.Caller, error)) // set by Serve
		c, err := who()
		query, bad := url.ParseQuery(r.URL.RawQuery)
		switch {
		case err != nil:
		case bad != nil:
			err = client.Wrong(value.Plainly(bad))
		case p.verb != "" && !c.Role.May(p.verb):
			err = answers.ErrRole
		case r.ParseForm() != nil:
			err = client.Wrongf("the form cannot be read")
		default:
			err = do(s.newLook(r, c, p, query), w)
		}
		var to elsewhere
		switch {
		case errors.As(err, &to):
			seeOther(w, r, string(to))
		case err != nil:
			s.refuse(w, r, c, err)
		}
	})
}

// page answers with the page, or sends its parts whenever they change.
func (l *look) page(w http.ResponseWriter) error {
	if l.Live && l.inFile() == "" {
		key := "page " + string(l.caller.Role) + " " + l.r.URL.RequestURI()
		return l.site.server.FollowParts(w, l.r, l.caller, key, func(ctx context.Context) (parts []httpapi.Part, err error) {
			one := l.site.newLook(l.r, l.caller, l.of, l.query)
			err = one.find(ctx, func() error {
				parts, err = l.site.shapes()[l.of.name].parts(one)
				return err
			})
			return parts, err
		})
	}
	if l.r.Method == http.MethodPost && l.of.do != nil && l.At == "" { // the past is read-only
		if err := l.of.do(l.r.Context(), l); err != nil {
			return err
		}
	}
	var body []byte
	err := l.find(l.r.Context(), func() (err error) {
		body, err = l.site.shapes()[l.of.name].whole(l)
		return err
	})
	if err == nil {
		l.site.server.Send(w, l.r, "text/html; charset=utf-8", body)
	}
	return err
}

// follows tells whether the caller wants to follow the page.
func follows(r *http.Request) bool {
	return httpapi.Accepts(r.Header.Get("Accept"), "text/event-stream")
}

// elsewhere is the path to redirect to.
type elsewhere string

func (e elsewhere) Error() string { return "see " + string(e) }

// find finds out what is on the page, and draws it.
func (l *look) find(ctx context.Context, draw func() error) error {
	return l.site.server.Desk.Draw(ctx, l.caller.Name, func() error {
		return l.see(ctx, func(ctx context.Context) (err error) {
			if l.Data, err = l.of.show(ctx, l); err != nil {
				return err
			}
			return draw()
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
	if r.Method == http.MethodPost {
		query = url.Values{} // it is that of a button
	}
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
