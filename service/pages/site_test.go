package pages

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"millrace/service/answers"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/node"
)

// command is a task that no worker runs here.
func command(argv ...string) birth.Submission {
	return birth.Submission{Spec: &job.Spec{Run: &job.Run{Argv: argv}}}
}

// paths are pages of all kinds, with a task.
func paths(id task.ID) []string {
	of := "/tasks/" + string(id)
	return []string{"/", "/tasks", "/tasks?q=state%3Apending", "/tasks?q=nothing+has+this", "/tasks?q=sate%3Aerror", "/tasks?col=id&col=params&col=labels&col=submitted", "/bulk/retry", "/bulk/retry?task=" + string(id), "/bulk/cancel?q=is%3Aroot", of, of + "?at=1", of + "/compare", of + "/compare?from=1", of + "/compare?with=" + id.Short(), of + "/compare?at=1", "/run/task/" + string(id), "/nothing",
		"/verify", "/verify?at=1", "/diff", "/diff?from=1", "/diff?from=1&at=2&job=none", "/diff?from=99999", "/events", "/events?type=task&since=2h", "/events?at=1", "/events?type=tsk", "/events/1", "/events/2?at=3", "/dead", "/dead?q=job%3Ab&at=1", "/dead?q=sate%3Aerror",
		"/nodes", "/nodes/w1", "/nodes/w1?at=4", "/queues", "/schedules", "/jobs", "/calendars", "/edit/job", "/edit/schedule", "/edit/calendar", "/edit/job?begin=nightly", "/files", "/incidents", "/incidents?at=1", of + "/graph", of + "/graph?as=gantt", of + "/graph?as=list&fold=none"}
}

// ready is the beginning of a node that takes work.
func ready(session string) []node.Event {
	return []node.Event{
		node.Registered{Session: session, Profile: node.Profile{Host: "rack3", Slots: 4, Queues: []string{"default"}, Probes: true}},
		node.WentOnline{Session: session}, node.BecameReady{Session: session, Reason: "its probe came through"},
	}
}

// ofForms are properties of a form that scripts read. A field of such a name hides the property:
// htmx then mistakes one form for another, and puts it in the place of the first at every redraw.
var ofForms = []string{"id", "action", "method", "target", "tagName", "attributes", "dataset", "classList", "children", "childNodes", "firstChild", "nextSibling", "parentNode", "parentElement", "elements"}

// The headers that limit what a browser may do stand on all pages, those of refused requests
// included.
func TestHeaders(t *testing.T) {
	t.Parallel()
	p := open(t)
	id := p.submit(command("date"))
	p.node("w1", ready("w1")...)
	for _, path := range append(paths(id), "/assets/0/none.js", "/tasks/none") {
		w := httptest.NewRecorder()
		p.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		csp := w.Header().Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "base-uri 'none'", "form-action 'self'", "frame-ancestors 'none'"} {
			if !strings.Contains(csp, want) || strings.Contains(csp, "unsafe") {
				t.Errorf("%s may do %q, want %s", path, csp, want)
			}
		}
		if kind := w.Header().Get("Content-Type"); w.Code < 400 && kind != "text/html; charset=utf-8" {
			t.Errorf("%s is %s", path, kind)
		}
	}
	for name := range All() {
		_, h := p.get(200, "/"+All().Path(name))
		if !strings.Contains(h.Get("Cache-Control"), "immutable") {
			t.Errorf("%s is kept as %q", name, h.Get("Cache-Control"))
		}
	}
}

// Every link of every page leads somewhere, also where a proxy has put something before the paths.
func TestLinks(t *testing.T) {
	t.Parallel()
	p := open(t)
	id := p.submit(command("date"))
	p.node("w1", ready("w1")...)
	const prefix = "/a/b"
	proxied := http.StripPrefix(prefix, p)
	seen := map[string]bool{}
	for _, path := range paths(id) {
		page, _ := p.get(map[bool]int{true: 404, false: 200}[path == "/nothing"], path)
		from, err := url.Parse("http://site" + prefix + path)
		if err != nil {
			t.Fatal(err)
		}
		for _, to := range links(t, page) {
			at, err := from.Parse(to)
			if err != nil || !strings.HasPrefix(at.Path, prefix+"/") {
				t.Errorf("%s leads to %s, out of the pages (%v)", path, to, err)
				continue
			}
			if seen[at.RequestURI()] || strings.Contains(at.Path+"/", "/do/") {
				continue
			}
			seen[at.RequestURI()] = true
			w := httptest.NewRecorder()
			proxied.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, at.RequestURI(), nil))
			if w.Code != 200 && !strings.Contains(at.RawQuery, "at=") {
				t.Errorf("%s leads to %s: %d", path, to, w.Code)
			}
		}
	}
	if len(seen) < 20 {
		t.Errorf("only %d links were followed", len(seen))
	}
}

// Where there is no page, the page that says so leads to those that there are, for who may see them.
func TestNoPage(t *testing.T) {
	t.Parallel()
	p := open(t)
	page, _ := p.get(404, "/jobs/backup/none")
	for _, want := range []string{"<h1>Page not found</h1>", "There is no page at this address.", `href="../../tasks"`} {
		if !strings.Contains(page, want) {
			t.Errorf("it does not say %s: %s", want, page)
		}
	}
	p.as("")
	if page, _ = p.get(401, "/jobs/backup/none"); strings.Contains(page, "Page not found") || strings.Contains(page, `href="../../tasks"`) {
		t.Error("a stranger hears what there is")
	}
}

// A program, which does not ask for HTML by name, gets a problem where a browser gets a page.
func TestRefusesPrograms(t *testing.T) {
	t.Parallel()
	p := open(t)
	for _, row := range []struct {
		accept, path string
		status       int
		kind         string
	}{
		{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "/api2/tasks", 404, "text/html; charset=utf-8"},
		{"*/*", "/api2/tasks", 404, "application/problem+json"},
		{"application/json", "/api2/tasks", 404, "application/problem+json"},
		{"text/event-stream", "/jobs/none", 404, "application/problem+json"},
		{"*/*", "/tasks/none", 400, "application/problem+json"},
		{"*/*", "/tasks/none/output", 400, "application/problem+json"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, row.path, nil)
		r.Header.Set("Accept", row.accept)
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		var problem answers.Problem
		if kind := w.Header().Get("Content-Type"); w.Code != row.status || kind != row.kind {
			t.Errorf("%s for %s is answered with %d, %s: %s", row.path, row.accept, w.Code, kind, w.Body)
		} else if strings.HasSuffix(kind, "json") && (json.Unmarshal(w.Body.Bytes(), &problem) != nil || problem.Status != row.status || problem.Next == "") {
			t.Errorf("%s for %s is answered with %s", row.path, row.accept, w.Body)
		}
	}
}

// The comparison of a task begins with the run before, in the past with what has changed since, and
// offers other runs and moments.
func TestCompare(t *testing.T) {
	t.Parallel()
	p := open(t)
	if _, _, err := p.client.Apply(t.Context(), job.Job{Name: "greet", Spec: *command("echo").Spec}); err != nil {
		t.Fatal(err)
	}
	var ids []task.ID
	for _, who := range []string{"ann", "bob", "cid"} {
		ids = append(ids, p.submit(birth.Submission{Job: "greet", Labels: map[string]string{"who": who}}))
	}
	lone := p.submit(command("date"))
	last, err := p.store.Last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	then := strconv.FormatUint(last, 10)
	of := "/tasks/" + string(ids[1]) + "/compare"
	for path, want := range map[string][]string{
		of: {"the previous run", "Ids, places in the log, times and usage", "<pre>ann</pre>", "<small>the previous run</small>", `<a href="../../tasks" aria-current="page">Tasks</a>`, "labels.who", "ann", "bob", "compare with the next run", "what has changed since"},
		of + "?with=" + strings.ToLower(ids[2].Short()): {"the next run", "cid", "bob"},
		of + "?with=nobody":                             {"is no task&#39;s id"},
		of + "?at=" + then:                              {"With itself, from <code>" + then + "</code> to now", "There is no difference"},
		"/tasks/" + string(ids[0]) + "/compare":         {"It has no earlier run", "compare with the next run"},
		"/tasks/" + string(lone) + "/compare":           {"there is no earlier run", "Its own past"},
	} {
		page, _ := p.get(200, path)
		p.says(page, want...)
	}
	for _, path := range []string{"/diff", "/diff?from=1&job=greet", "/diff?from=" + then} {
		page, _ := p.get(200, path)
		p.says(page, map[bool]string{true: "Nothing has changed", false: "new to pending"}[strings.HasSuffix(path, "="+then)])
	}
	if page, _ := p.get(200, of+"?with="+string(ids[2])); strings.Contains(page, "ann") {
		t.Error("it is compared with another run than that asked for")
	}
}

// A page can be read without a script: what the log knows stands in it.
func TestReadable(t *testing.T) {
	t.Parallel()
	p := open(t)
	page, _ := p.get(200, "/tasks")
	if !strings.Contains(page, "There are no tasks yet") {
		t.Error("an empty list does not say what to do")
	}
	s := command("echo", "hello")
	s.Labels = map[string]string{"env": "prod"}
	id := p.submit(s)
	for path, want := range map[string][]string{
		"/":                              {"<b>1</b>", "pending", "There are no nodes yet"},
		"/tasks":                         {id.Short(), "echo hello", "pending"},
		"/tasks?q=label%3Aenv%3Dprod":    {id.Short()},
		"/tasks?q=echo+state%3Aerror":    {"Nothing matches", "state:error"},
		"/tasks?q=sate%3Aerror":          {"do you mean state?"},
		"/tasks/" + string(id):           {string(id), "must act", "env=prod", "task.submitted", "has printed nothing"},
		"/tasks/" + string(id) + "?at=1": {"This is how it was at #1", "Return to live"},
	} {
		page, _ := p.get(200, path)
		for _, text := range want {
			if !strings.Contains(page, text) {
				t.Errorf("%s does not say %q", path, text)
			}
		}
	}
	_, h := p.get(303, "/tasks?q="+strings.ToLower(string(id)))
	if to := h.Get("Location"); to != "./tasks/"+string(id) {
		t.Errorf("an id leads to %s", to)
	}
	for path, status := range map[string]int{"/tasks/none": 400, "/tasks/01ARZ3NDEKTSV4RRFFQ69G5FAV": 404, "/tasks?at=never": 400, "/?at=100000": 400, "/tasks?cursor=x": 200} {
		page, _ := p.get(status, path)
		if !strings.Contains(page, "Next: ") {
			t.Errorf("%s does not say what to do next: %s", path, page)
		}
	}
}

// A page that is looked at changes with the log.
func TestLive(t *testing.T) {
	t.Parallel()
	p := open(t)
	id := p.submit(command("date"))
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	server := httptest.NewServer(p)
	defer server.Close()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/tasks", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = got.Body.Close() }()
	if kind := got.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Fatalf("it comes as %s", kind)
	}
	lines := bufio.NewScanner(got.Body)
	lines.Buffer(nil, 1<<20)
	part := func(name, with string) {
		t.Helper()
		event := ""
		for lines.Scan() {
			if is, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				event = is
			}
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			if !ok || event != name {
				continue
			}
			var text string
			if err := json.Unmarshal([]byte(data), &text); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(text, with) {
				return
			}
		}
		t.Fatalf("no part %s comes with %s: %v", name, with, lines.Err())
	}
	part("rows", "s-pending")
	if _, err := p.client.Cancel(ctx, id, ""); err != nil {
		t.Fatal(err)
	}
	part("rows", "s-cancelled")
}
