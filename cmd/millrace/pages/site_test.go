package pages

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"millrace/api"
	"millrace/events"
	"millrace/internal/testkit"
	"millrace/jet/roles"
	"millrace/node"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/output"
	"millrace/task/param"
	"millrace/task/value"
	"millrace/view"
)

// command is a task that no worker runs here.
func command(argv ...string) birth.Submission {
	return birth.Submission{Spec: &job.Spec{Run: &job.Run{Argv: argv}}}
}

// paths are pages of all kinds, with a task.
func paths(id task.ID) []string {
	of := "/tasks/" + string(id)
	return []string{"/", "/tasks", "/tasks?q=state%3Apending", "/tasks?q=nothing+has+this", "/tasks?q=sate%3Aerror", "/tasks?col=id&col=params&col=labels&col=submitted", "/bulk/retry", "/bulk/retry?task=" + string(id), "/bulk/cancel?q=is%3Aroot", of, of + "?at=1", of + "/compare", of + "/compare?from=1", "/run/task/" + string(id), "/nothing",
		"/verify", "/verify?at=1", "/events", "/events?type=task&since=2h", "/events?at=1", "/events?type=tsk", "/events/1", "/events/2?at=3", "/dead", "/dead?q=job%3Ab&at=1", "/dead?q=sate%3Aerror",
		"/nodes", "/nodes/w1", "/nodes/w1?at=4", "/queues", "/schedules", "/jobs", "/calendars", "/edit/job", "/edit/schedule", "/edit/calendar", "/incidents", "/incidents?at=1", of + "/graph", of + "/graph?as=gantt", of + "/graph?as=list&fold=none"}
}

// ready is the beginning of a node that takes work.
func ready(session string) []node.Event {
	return []node.Event{
		node.Registered{Session: session, Profile: node.Profile{Host: "rack3", Slots: 4, Queues: []string{"default"}, Probes: true}},
		node.WentOnline{Session: session}, node.BecameReady{Session: session, Reason: "its probe came through"},
	}
}

// hostile are texts that do harm on a page that does not escape them.
var hostile = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, "{{.Data}}", "javascript:alert(1)",
	"a\x1b[31mred\x1b]8;;http://evil.example\aon", "\r\ndata: forged\r\n\r\n", "right\u202Eto left\u2066", "nul\x00", `hx-get="/x" hx-on:click="x"`, "</title></textarea></template>",
	strings.Repeat("w", 5000), "a/b?c#d%2fe", "\u2028line",
}

// Whatever texts come from others, a page has only its own elements and attributes, shows no
// control characters, and loads nothing from elsewhere.
func TestPagesEscape(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.node("w1", ready("w1")...)
	var id task.ID
	for i, text := range hostile {
		p.node(node.ID("n"+strconv.Itoa(i)), node.Registered{Session: "s", Profile: node.Profile{Host: text, Version: text, Labels: map[string]string{"a": text}}}, node.WentOnline{Session: "s", Reason: text})
		if _, err := p.client.PauseQueue(t.Context(), "default", 0, text[:min(len(text), 200)]); err != nil {
			t.Fatal(err)
		}
		s := command("echo", strings.ReplaceAll(text, "\x00", ""))
		s.Labels = map[string]string{"k" + strconv.Itoa(i): text[:min(len(text), 60)]}
		value, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		s.Params = map[string]json.RawMessage{"p": value}
		j := job.Job{Name: "j" + strconv.Itoa(i), Title: text, Description: text, Owner: text, Group: text, Labels: map[string]string{"k": text}, Spec: *s.Spec}
		j.Params.Declared = []param.Param{{Name: "p", Title: text, Description: text, Type: param.String, Enum: []json.RawMessage{value, []byte(`"x"`)}, Default: value}}
		if _, _, err := p.client.Apply(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		id = p.submit(s)
		if err := p.store.Print(p.Context(), output.Lines{Task: id, Attempt: 1, Epoch: 1, Lines: []output.Line{{N: 1, Stream: output.Stdout, Text: text, At: time.Now()}}}); err != nil {
			t.Fatal(err)
		}
		if _, err := p.client.Cancel(p.Context(), id, text[:min(len(text), 200)]); err != nil {
			t.Fatal(err)
		}
		p.seen()
		for _, path := range append(paths(id), "/tasks?q="+url.QueryEscape(`"`+text+`"`), "/"+url.PathEscape(text), "/tasks?at="+url.QueryEscape(text), "/nodes/n"+strconv.Itoa(i), "/jobs/"+j.Name, "/run/job/"+j.Name, "/edit/job?name="+j.Name, "/jobs/"+url.PathEscape(text)) {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
			w := httptest.NewRecorder()
			p.ServeHTTP(w, r)
			p.harmless(fmt.Sprintf("%s of %.20q", path, text), w.Body.String())
		}
	}
}

// ofForms are properties of a form that scripts read. A field of such a name hides the property:
// htmx then mistakes one form for another, and puts it in the place of the first at every redraw.
var ofForms = []string{"id", "action", "method", "target", "tagName", "attributes", "dataset", "classList", "children", "childNodes", "firstChild", "nextSibling", "parentNode", "parentElement", "elements"}

// harmless checks a page against what it may contain.
func (p *place) harmless(what, page string) {
	p.Helper()
	for _, e := range elements(p.T, page) {
		if is := e.attr["name"]; slices.Contains([]string{"input", "select", "textarea", "button"}, e.name) && slices.Contains(ofForms, is) {
			p.Errorf("%s has a field %s, which hides that of its form from scripts", what, is)
		}
		if slices.Contains([]string{"img", "iframe", "style", "object", "embed", "base"}, e.name) || e.name == "script" && e.attr["src"] == "" {
			p.Errorf("%s has an element %s: %v", what, e.name, e.attr)
		}
		for name := range e.attr {
			if strings.HasPrefix(name, "on") || name == "style" || strings.HasPrefix(name, "hx-") && name != "hx-ignore" {
				p.Errorf("%s has an attribute %s", what, name)
			}
		}
	}
	for _, to := range links(p.T, page) {
		if !strings.HasPrefix(to, "./") && !strings.HasPrefix(to, "../") {
			p.Errorf("%s leads to %.60s", what, to)
		}
	}
	for _, r := range page {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) || r == '\u2028' {
			p.Errorf("%s shows %U", what, r)
			return
		}
	}
}

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
	for name := range p.assets() {
		_, h := p.get(200, "/"+p.assets().path(name))
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

// The past has no buttons, and is as it was.
func TestThen(t *testing.T) {
	t.Parallel()
	p := open(t)
	id := p.submit(command("date"))
	birth := p.server.Desk.Reached()
	if _, err := p.client.Cancel(t.Context(), id, "no more"); err != nil {
		t.Fatal(err)
	}
	p.seen()
	of := "/tasks/" + string(id)
	now, _ := p.get(200, of)
	then, _ := p.get(200, fmt.Sprintf("%s?at=%d", of, birth))
	if !strings.Contains(now, `action="../do/task.retry?id=`+string(id)+`"`) || !strings.Contains(now, "no more") {
		t.Error("a cancelled task cannot be retried, or does not say why it was cancelled")
	}
	if strings.Contains(then, `method="post"`) || strings.Contains(then, "no more") || !strings.Contains(then, "s-pending") {
		t.Error("the past has buttons, or is not as it was")
	}
	for _, path := range []string{"/tasks", "/"} {
		list, _ := p.get(200, fmt.Sprintf("%s?at=%d", path, birth))
		if !strings.Contains(list, "s-pending") || strings.Contains(list, "s-cancelled") || strings.Contains(list, `class="wrong"`) {
			t.Errorf("%s is not as it was: %s", path, list)
		}
	}
	if end, _ := p.get(200, fmt.Sprintf("%s?at=%d", of, p.server.Desk.Reached())); !strings.Contains(end, "no more") || strings.Contains(end, `method="post"`) {
		t.Error("the past up to the end is not as the present")
	}
}

// The switch in the head leads from the past to the present, without what pins the page, and a slider
// over the whole log stands where the page is.
func TestSwitch(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.submit(command("date"))
	birth := p.server.Desk.Reached()
	p.submit(command("date"))
	last := p.server.Desk.Reached()
	for path, want := range map[string]struct {
		value   uint64
		current string // of the link to the present
		live    string
	}{
		"/tasks":                               {last, "true", "./tasks?"},
		"/tasks?q=is%3Aroot&paused=1":          {last, "true", "./tasks?q=is%3Aroot"},
		fmt.Sprintf("/tasks?at=%d", birth):     {birth, "", "./tasks?"},
		fmt.Sprintf("/tasks?at=%d&q=a", birth): {birth, "", "./tasks?q=a"},
	} {
		page, _ := p.get(200, path)
		found := 0
		for _, e := range elements(t, page) {
			switch e.attr["id"] {
			case "slider":
				found++
				if e.attr["min"] != "1" || e.attr["max"] != fmt.Sprint(last) || e.attr["value"] != fmt.Sprint(want.value) {
					t.Errorf("the slider of %s is %v, want %d of %d", path, e.attr, want.value, last)
				}
			case "live":
				found++
				if e.attr["href"] != want.live || e.attr["aria-current"] != want.current {
					t.Errorf("the switch of %s is %v, want %+v", path, e.attr, want)
				}
			case "pause":
				found++
			}
		}
		if found != 3 {
			t.Errorf("%s has %d of slider, pause and live", path, found)
		}
	}
}

// The overview says who has changed what, and how.
func TestChanged(t *testing.T) {
	t.Parallel()
	p := open(t)
	if page, _ := p.get(200, "/"); !strings.Contains(page, "No definition, queue, limit or node has been changed") {
		t.Error("it is not said that nothing was changed")
	}
	p.job("backup", "pg_dump", "shop")
	first := p.server.Desk.Reached()
	p.job("backup", "pg_dump", "--all")
	if _, err := p.client.PauseQueue(t.Context(), "low", 0, hostile[0]); err != nil {
		t.Fatal(err)
	}
	p.seen()
	for range 2 { // the second time it is known
		page, _ := p.get(200, "/")
		for _, want := range []string{"Latest changes", "jobs/backup", "queue low", "<code>run.argv</code>", "&#34;--all&#34;", "queue.paused", fmt.Sprintf("events/%d", first)} {
			if !strings.Contains(page, want) {
				t.Errorf("the overview does not say %q", want)
			}
		}
		p.harmless("the overview", page)
	}
	if page, _ := p.get(200, fmt.Sprintf("/?at=%d", first)); strings.Contains(page, "--all") || !strings.Contains(page, "jobs/backup") {
		t.Error("the past is not as it was")
	}
}

// Buttons are verbs, under the rights of the user who presses them.
func TestActions(t *testing.T) {
	t.Parallel()
	p := open(t)
	id := p.submit(command("date"))
	of := "/tasks/" + string(id)
	p.as(roles.Viewer)
	if page, _ := p.get(200, of); strings.Contains(page, `method="post"`) {
		t.Error("a viewer has buttons")
	}
	p.press(403, "/do/task.cancel", "id", string(id))
	p.as(roles.Submitter)
	p.get(403, "/tasks")
	page, _ := p.get(200, of)
	if strings.Contains(page, "do/task.cancel") || !strings.Contains(page, "run/task/"+string(id)) {
		t.Error("a submitter has buttons of others, or not his own")
	}
	p.press(403, "/do/task.cancel", "id", string(id))
	p.as("")
	if page, _ := p.get(401, of); strings.Contains(page, "<nav") || !strings.Contains(page, "millrace dev") || !strings.Contains(page, `action="../login"`) || !strings.Contains(page, `name="to" value="`+of+`"`) || strings.Contains(page, "logout") {
		t.Error("who is not known is shown where what is, or not how to get in")
	}
	if page, _ := p.press(401, "/login", "token", "wrong", "to", "/tasks?q=a"); !strings.Contains(page, "not one that is known") || !strings.Contains(page, `value="/tasks?q=a"`) {
		t.Errorf("who has entered another token is not told: %s", page)
	}
	p.get(401, "/nothing")
	p.press(401, "/do/task.cancel", "id", string(id))
	p.as(roles.Operator)
	p.press(404, "/do/task.get", "id", string(id))
	p.press(404, "/do/none", "id", string(id))
	p.press(400, "/do/task.cancel", "id", string(id), "more", "x")
	p.press(405, of)
	if got, err := p.client.Task(t.Context(), id); err != nil || got.State != task.Pending {
		t.Fatalf("the task is %s, %v", got.State, err)
	}
	_, h := p.press(303, "/do/task.cancel", "id", string(id), "reason", "no more", "back", of+"?x=1")
	if to := h.Get("Location"); to != "../tasks/"+string(id)+"?x=1" {
		t.Errorf("it leads back to %s", to)
	}
	got, err := p.client.Task(t.Context(), id)
	if err != nil || got.State != task.Cancelled {
		t.Errorf("the task is %s, %v", got.State, err)
	}
	if page, _ := p.get(200, "/tasks"); !strings.Contains(page, "s-cancelled") {
		t.Error("the list does not show at once what was done")
	}
	if page, _ := p.press(409, "/do/task.signal", "id", string(id)); !strings.Contains(page, "The task has ended") {
		t.Errorf("a button that came too late says %s", page)
	}
	_, h = p.press(303, "/do/task.copy", "id", string(id), "task", `{"params":{"a":1}}`, "back", of)
	to := h.Get("Location")
	copied, err := p.client.Task(t.Context(), task.ID(to[strings.LastIndexByte(to, '/')+1:]))
	if err != nil || copied.RetryOf != id || string(copied.Params) != `{"a":1}` {
		t.Errorf("%s is %+v, %v", to, copied.Work, err)
	}
	p.press(400, "/do/task.copy", "id", string(id), "task", `{`)
}

// The overview of the present shows recent tasks and how long a job usually takes; that of the past
// has no plots.
func TestOverviewOfLate(t *testing.T) {
	t.Parallel()
	p := open(t)
	id := p.submit(command("date"))
	now := p.client.Now()
	p.Observe([]events.Step{
		{Record: &events.Record{Stored: now.Add(-time.Minute)}, Was: events.Glance{State: task.Running}, Is: events.Glance{State: task.Finished}},
		{Record: &events.Record{Stored: now.Add(-time.Minute)}, Was: events.Glance{State: task.Running}, Is: events.Glance{State: task.Error}},
	})
	page, _ := p.get(200, "/")
	if strings.Count(page, `data-done="0.1"`) != 1 || strings.Count(page, `data-failed="0.1"`) != 1 || !strings.Contains(page, "The oldest pending task has waited since") {
		t.Errorf("what came of late is not shown: %s", page)
	}
	if then, _ := p.get(200, "/?at=1"); strings.Contains(then, "data-plot") {
		t.Error("the past has plots")
	}
	if got, err := p.client.Cancel(t.Context(), id, ""); err != nil || got.State != task.Cancelled {
		t.Fatal(got.State, err)
	}
	p.seen()
	if page, _ := p.get(200, "/"); !strings.Contains(page, "No task is pending") {
		t.Error("nothing waits, and the page does not say so")
	}
}

// What is overdue stands on the overview, with who must act on it; of the past it is not said.
func TestOverdue(t *testing.T) {
	t.Parallel()
	p := open(t)
	if page, _ := p.get(200, "/"); strings.Contains(page, "<h2>Overdue</h2>") {
		t.Error("nothing is overdue, and the page has a heading for it")
	}
	s := command("date")
	soon := value.Duration(time.Millisecond)
	s.Pending = &soon
	id := p.submit(s)
	for {
		page, _ := p.get(200, "/")
		if strings.Contains(page, "<h2>Overdue</h2>") {
			if !strings.Contains(page, `id="due-`+string(id)+`"`) {
				t.Errorf("another task is overdue: %s", page)
			}
			break
		}
	}
	if then, _ := p.get(200, "/?at=1"); strings.Contains(then, "<h2>Overdue</h2>") {
		t.Error("the past has it, too")
	}
}

// finished is a world in which some tasks have finished.
type finished struct {
	view.View
	tasks []task.Task
}

func (f finished) List(_ context.Context, q view.Query) (is view.Page, err error) {
	for i := range f.tasks {
		if q.Filter.Match(&f.tasks[i]) {
			is.Tasks = append(is.Tasks, f.tasks[i])
		}
	}
	return is, nil
}

// The usual duration of a task is that of its like: parents count apart from steps, and each step
// apart from others.
func TestUsual(t *testing.T) {
	t.Parallel()
	of := func(step string, ran time.Duration) task.Task {
		is := task.Task{State: task.Finished, Ran: value.Duration(ran)}
		if is.Job, is.Step = "release", step; step != "" {
			is.Parent = "whole"
		}
		return is
	}
	world := finished{tasks: []task.Task{of("", time.Minute), of("build", time.Second), of("ship/0", 3*time.Second), of("ship/1", 5*time.Second)}}
	known := new(usual)
	for step, want := range map[string]span{"": {time.Minute, time.Minute, 1}, "build": {time.Second, time.Second, 1}, "ship/7": {3 * time.Second, 5 * time.Second, 2}, "mend": {}} {
		one := of(step, 0)
		if got := known.of(t.Context(), &look{Sight: &api.Sight{View: world}}, &one); got != want {
			t.Errorf("step %q usually takes %v, want %v", step, got, want)
		}
	}
	child := of("", 0)
	child.Parent = "whole"
	if got := known.of(t.Context(), &look{Sight: &api.Sight{View: world}}, &child); got != (span{}) {
		t.Errorf("a child without a step usually takes %v, as its parent does", got)
	}
}

// Nodes are shown with the actions that are possible, and each action takes effect.
func TestNodes(t *testing.T) {
	t.Parallel()
	p := open(t)
	if page, _ := p.get(200, "/nodes"); !strings.Contains(page, "There are no nodes yet") {
		t.Error("an empty list does not say what to do")
	}
	p.get(404, "/nodes/w1")
	p.get(400, "/nodes/w%201")
	p.node("w1", ready("s1")...)
	page, _ := p.get(200, "/nodes")
	if !strings.Contains(page, "w1</a>") || !strings.Contains(page, ">0/4<") {
		t.Errorf("the list is %s", page)
	}
	page, _ = p.get(200, "/nodes/w1")
	for _, want := range []string{"rack3", "node.registered", `action="../do/node.drain?id=w1"`, `class="f-ready"`, "its probe came through"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page of a node does not have %q", want)
		}
	}
	if strings.Contains(page, "do/node.undrain") {
		t.Error("a node that serves can be told to serve")
	}
	p.press(303, "/do/node.drain", "id", "w1", "reason", "disk", "grace", "1m", "back", "/nodes/w1")
	if n, err := p.client.Node(t.Context(), "w1"); err != nil || n.Standing.Order != node.OrderDrain || n.Standing.By != "ada" || n.Standing.Grace.Std() != time.Minute {
		t.Errorf("it is %+v, %v", n.Standing, err)
	}
	if page, _ = p.get(200, "/nodes/w1"); !strings.Contains(page, "do/node.undrain") || !strings.Contains(page, "disk") {
		t.Error("a drained node does not say why, or cannot be told to serve")
	}
	p.press(303, "/do/node.label", "id", "w1", "labels", `{"zone":"eu"}`)
	if n, err := p.client.Node(t.Context(), "w1"); err != nil || n.Labels["zone"] != "eu" {
		t.Errorf("its labels are %v, %v", n.Labels, err)
	}
}

// Queues have their bounds, and buttons that change them.
func TestQueues(t *testing.T) {
	t.Parallel()
	p := open(t)
	if page, _ := p.get(200, "/queues"); !strings.Contains(page, "There are no queues yet") || !strings.Contains(page, "No task stands under a limit") {
		t.Error("an empty list does not say what to do")
	}
	p.submit(command("date"))
	p.press(303, "/do/queue.pause", "queue", "default", "for", "1h", "reason", "the source is down")
	if page, _ := p.get(200, "/queues"); !strings.Contains(page, "the source is down") || !strings.Contains(page, "do/queue.resume") {
		t.Error("a paused queue does not say so")
	}
	p.press(303, "/do/queue.resume", "queue", "default")
	p.press(303, "/do/queue.limit", "queue", "default", "running", "3", "waiting", "", "rate", `{"limit":5,"per":"1m"}`)
	q, err := view.GetQueue(t.Context(), p.client.View(), "default")
	if err != nil || q.Paused != nil || q.Limit != 3 || q.Rate.Limit != 5 {
		t.Errorf("the queue is %+v, %v", q, err)
	}
	if page, _ := p.get(200, "/queues"); !strings.Contains(page, "at most 3 may run at once") || !strings.Contains(page, `value="3"`) {
		t.Error("the bounds of a queue are not shown")
	}
}

// The time of a node is divided among its states.
func TestStretches(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	record := func(seq uint64, minute int, e node.Event) events.Record {
		at := noon.Add(time.Duration(minute) * time.Minute)
		return events.Record{Seq: seq, Kind: events.KindNode, Stored: at, Fact: events.Fact{ID: strconv.Itoa(int(seq)), At: at, Type: events.TypeOf(e), Node: "w1", Event: e}}
	}
	is := ready("s")
	all := stretches("w1", []events.Record{record(1, 0, is[0]), record(2, 1, is[1]), record(3, 2, is[2]), record(4, 50, node.WentOffline{Session: "s"})}, noon.Add(90*time.Second), noon.Add(time.Hour))
	want := []stretch{{node.Online, noon.Add(90 * time.Second), noon.Add(2 * time.Minute), 2}, {node.Ready, noon.Add(2 * time.Minute), noon.Add(50 * time.Minute), 3}, {node.Offline, noon.Add(50 * time.Minute), noon.Add(time.Hour), 4}}
	if !slices.Equal(all, want) {
		t.Errorf("the stretches are %v, want %v", all, want)
	}
}

// After pressing a button, a user finds its effect in the lists, however far these were behind.
func TestActionIsSeen(t *testing.T) {
	t.Parallel()
	p := still(t)
	p.patience = patience
	receipt, err := p.client.Submit(t.Context(), command("date"))
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/do/task.cancel", strings.NewReader("id="+string(receipt.ID)))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	pressed := make(chan int, 1)
	go func() {
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		pressed <- w.Code
	}()
	testkit.Eventually(t, "the task is cancelled", func() bool {
		got, err := p.client.Task(t.Context(), receipt.ID)
		return err == nil && got.State == task.Cancelled
	})
	p.project()
	if code := <-pressed; code != http.StatusSeeOther {
		t.Errorf("it is answered with %d", code)
	}
	if list, _ := p.get(200, "/tasks"); !strings.Contains(list, "s-cancelled") {
		t.Errorf("the list is %s", list)
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

// A page shows, searches and downloads any part of the output, and all of it can be had.
func TestOutput(t *testing.T) {
	t.Parallel()
	p := open(t)
	id := p.submit(command("date"))
	for i := range 3 {
		b := output.Lines{Task: id, Attempt: 1, Epoch: 5}
		for n := range 300 {
			l := output.Line{N: i*300 + n + 1, Stream: output.Stdout, At: time.Now(), Text: fmt.Sprintf("line %d <b>", i*300+n+1)}
			if l.N%333 == 0 {
				l.Level = "error"
			}
			if l.N == 550 {
				l.Text = "\x1b[31m" + l.Text // and so on
			}
			b.Lines = append(b.Lines, l)
		}
		if err := p.store.Print(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	of := "/tasks/" + string(id)
	has := func(path string, from, upto, all int, more ...string) {
		t.Helper()
		page, _ := p.get(200, path)
		if n := strings.Count(page, `class="line`); n != all {
			t.Errorf("%s has %d lines, want %d", path, n, all)
		}
		for _, want := range append(more, fmt.Sprintf("line %d &lt;b&gt;", from), fmt.Sprintf("line %d &lt;b&gt;", upto)) {
			if !strings.Contains(page, want) {
				t.Errorf("%s has no %s", path, want)
			}
		}
	}
	has(of, 701, 900, shownLines, `href="./`+string(id)+`?from=501#printed" rel="prev"`, "lines 701 to 900 of 900")
	has(of+"?from=1", 1, 200, shownLines, `from=201#printed" rel="next"`)
	has(of+"?line=450", 400, 599, shownLines, `found" data-n="450"`)
	has(of+"?find=line+7&only=1", 7, 799, 111, "111 of the lines 1 to 900")
	has(of+"?level=warn&only=1", 333, 666, 2)
	has(of+"?find=line+77&line=779&go=next", 701, 900, shownLines, "No line from 780 on has that")
	for query, want := range map[string]string{"go=next&level=error&at=": "at=&level=error&line=333", "go=next&find=LINE+77&line=80": "find=LINE+77&line=770", "go=previous&find=line+77&line=770": "find=line+77&line=77", "go=previous&find=line": "find=line&line=900"} {
		_, h := p.get(303, of+"?"+query)
		if to := h.Get("Location"); to != "../tasks/"+string(id)+"?"+want && to != "./tasks/"+string(id)+"?"+want {
			t.Errorf("%s leads to %s", query, to)
		}
	}
	has(of+"/lines?from=560", 560, 759, shownLines, `data-total="900"`, `<span class="sgr-1">line 560 &lt;b&gt;</span>`)
	has(of+"/lines", 701, 900, shownLines)
	if answer, _ := p.get(200, of+"/hit?find=line+33&from=40"); answer != `{"line":330,"reached":330,"total":900}` {
		t.Errorf("it is found at %s", answer)
	}
	if answer, _ := p.get(200, of+"/hit?level=error&from=332&back=1"); answer != `{"line":0,"reached":1,"total":900}` {
		t.Errorf("it is found at %s", answer)
	}
	p.get(400, of+"/hit?level=warm")
	p.get(400, "/tasks/none/lines")
	all, h := p.get(200, of+"/output")
	if lines := strings.Split(all, "\n"); len(lines) != 901 || lines[899] != "line 900 <b>" || !strings.HasPrefix(h.Get("Content-Disposition"), "attachment") {
		t.Errorf("all of it has %d lines", len(lines))
	}
	p.as(roles.Submitter)
	for _, path := range []string{"/output", "/lines", "/hit"} {
		p.get(403, of+path)
	}
	if page, _ := p.get(200, of); strings.Contains(page, "line 900") {
		t.Error("a submitter reads what was printed")
	}
}
