package pages

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/events/jet/rights"
	"millrace/history/incident"
	"millrace/service/answers"
	"millrace/service/httpapi"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/output"
	"millrace/task/placement"
)

// upload sends an incident file as a browser does, and returns where the answer leads.
func (p *place) upload(status int, name string, data []byte) string {
	p.Helper()
	var body bytes.Buffer
	m := multipart.NewWriter(&body)
	part, err := m.CreateFormFile("file", name)
	if err == nil {
		_, err = part.Write(data)
	}
	if err == nil {
		err = m.Close()
	}
	if err != nil {
		p.Fatal(err)
	}
	r := httptest.NewRequestWithContext(p.Context(), http.MethodPost, "/incidents/do", &body)
	r.Header.Set("Content-Type", m.FormDataContentType())
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	if w.Code != status {
		p.Fatalf("%s is answered with %d, want %d: %s", name, w.Code, status, w.Body)
	}
	p.harmless(name, w.Body.String())
	return strings.TrimPrefix(w.Header().Get("Location"), "..")
}

// known is an incident file from the examples.
func known(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile("../../examples/incidents/reconnected-old.mri")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// stuck is the task in it that waited for ever.
const stuck = "01KJN7E0Z06P8RXA7D3Q5VWT2C"

// An incident file is a world of its own: all pages show it as of any moment, without buttons, and
// each link stays in it.
func TestOpenedFile(t *testing.T) {
	t.Parallel()
	p := still(t)
	to := p.upload(303, `C:\files\crash.mri`, known(t))
	if !strings.HasPrefix(to, "/incidents/") || !strings.HasSuffix(to, "/") {
		t.Fatalf("who opens a file is led to %s", to)
	}
	for path, wants := range map[string][]string{
		"":                               {"Incident file <b>crash.mri</b>", "Return" /* is not there */, "Steps"},
		"?at=1048188":                    {"#1048188"},
		"tasks":                          {stuck[20:], "../" + to[1:] + "tasks/" + stuck},
		"tasks?q=state%3Acancelling":     {stuck[20:]},
		"tasks/" + stuck:                 {"task.cancel_requested", "attempt.started"},
		"tasks/" + stuck + "?at=1048188": {"pending"},
		"nodes":                          {"nodes/b"},
		"nodes/b?at=1048190":             {"1048"},
		"queues":                         {"default"},
		"events":                         {"attempt.started"},
		"events?task=" + stuck:           {"task.submitted"},
		"events/1048188":                 {"task.submitted", "As it was written"},
		"jobs":                           {"Jobs"},
		"schedules":                      {"Schedules"},
		"dead":                           {"Dead letters"},
		"steps":                          {"Steps"},
	} {
		page, _ := p.get(200, to+path)
		p.harmless(path, page)
		for _, want := range wants {
			if want != "Return" && !strings.Contains(page, want) && !strings.Contains(page, strings.ReplaceAll(want, "../", "../../")) {
				t.Errorf("%s does not say %q", path, want)
			}
		}
		if strings.Contains(page, `method="post"`) || strings.Contains(page, "Return to live") || strings.Contains(page, "data-now") {
			t.Errorf("%s has buttons, or follows", path)
		}
		from, err := url.Parse("http://site/a/b" + to + path)
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range links(t, page) {
			at, err := from.Parse(link)
			if err != nil || !strings.HasPrefix(at.Path, "/a/b"+to) && !strings.HasPrefix(at.Path, "/a/b/assets/") && at.Path != "/a/b/incidents" {
				t.Errorf("%s leads out of the file to %s (%v)", path, link, err)
			}
		}
	}
	for path, status := range map[string]int{"?at=5": 400, "?at=9999999": 400, "?at=never": 400, "?at=2999-01-01": 400, "tasks/" + stuck + "/compare": 404, "verify": 404, "edit/job": 404, "tasks/01ARZ3NDEKTSV4RRFFQ69G5FAV": 404} {
		p.get(status, to+path)
	}
	p.get(404, "/incidents/other/tasks")
	p.get(404, "/steps")
	p.as(rights.Submitter)
	p.get(403, to+"tasks/"+stuck)
	p.press(403, strings.TrimSuffix(to, "/")+"/close")
	p.upload(403, "x.mri", known(t))
	p.as("")
	p.get(401, to)
	p.as(rights.Viewer)
	if _, h := p.press(303, to+"close"); h.Get("Location") != "../../incidents" {
		t.Errorf("who closes a file is led to %s", h.Get("Location"))
	}
	p.get(404, to)
}

// The URL holds the step that a reader is at; the page shows what changed, who decided from what,
// and who owed what.
func TestSteps(t *testing.T) {
	t.Parallel()
	p := still(t)
	of := p.upload(303, "crash.mri", known(t)) + "steps?"
	at := func(query ...string) string {
		t.Helper()
		q := url.Values{}
		for i := 0; i+1 < len(query); i += 2 {
			q.Add(query[i], query[i+1])
		}
		page, _ := p.get(200, of+q.Encode())
		p.harmless(q.Encode(), page)
		if raw := regexp.MustCompile(`>[^<]*\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`).FindString(page); raw != "" {
			t.Errorf("%s tells a time that is not on the clock of the page: %s", q.Encode(), raw)
		}
		return page
	}
	for what, c := range map[string]struct {
		query []string
		want  []string
	}{
		"a point":            {[]string{"at", "1048189"}, []string{">#1048189</a> <code>attempt.started", "<code>state</code>", "<pre>pending</pre>", "decided", "b NO, unproved", "node b", "▸ #1048189"}},
		"the next":           {[]string{"at", "1048188", "do", "s"}, []string{">#1048189</a> <code>"}},
		"back":               {[]string{"at", "1048189", "do", "S"}, []string{">#1048188</a> <code>"}},
		"of the task":        {[]string{"at", "1048188", "of", "task " + stuck, "do", "n"}, []string{">#1048189</a> <code>", "2 of "}},
		"what changes":       {[]string{"at", "1048188", "of", "task " + stuck, "do", "w state"}, []string{">#1048189</a> <code>"}},
		"to a breakpoint":    {[]string{"at", "1048186", "b", "state cancelling", "do", "c"}, []string{"task.cancel_requested", "break ", "state cancelling", "remove"}},
		"nothing more":       {[]string{"at", "1048189", "b", "state abnormal", "do", "c"}, []string{"no breakpoint is hit before the span ends", ">#1048189</a> <code>"}},
		"a wrong breakpoint": {[]string{"at", "1048189", "b", "<b>x</b> ==="}, []string{`class="wrong"`}},
		"no move":            {[]string{"at", "1048189", "do", "m <b>"}, []string{`class="wrong"`, "goes nowhere"}},
		"no such thing":      {[]string{"at", "1048189", "of", "task 01ARZ3NDEKTSV4RRFFQ69G5FAV"}, []string{`class="wrong"`}},
		"marks":              {[]string{"at", "1048189"}, []string{"handed"}},
		"causes":             {[]string{"at", "1048189"}, []string{"What led to it", "before it on the chain"}},
	} {
		page := at(c.query...)
		for _, want := range c.want {
			if !strings.Contains(page, want) {
				t.Errorf("%s: the page does not say %q", what, want)
			}
		}
	}
}

// A page refuses an upload that is too large, no incident file or one too many, and tells what a
// damaged file lacks.
func TestUploads(t *testing.T) {
	t.Parallel()
	p := still(t)
	whole := known(t)
	for _, text := range hostile {
		p.upload(400, text, []byte(text))
	}
	p.upload(400, "nothing", nil)
	p.press(400, "/incidents/do", "file", "x")
	to := p.upload(303, "cut.mri", whole[:len(whole)*2/3])
	if page, _ := p.get(200, to); !strings.Contains(page, "Damaged: ") {
		t.Error("a file that was cut does not say so")
	}
	if page, _ := p.get(200, "/incidents"); !strings.Contains(page, "Damaged: ") || !strings.Contains(page, "cut.mri") {
		t.Error("the list does not say what is missing")
	}
	if page, _ := p.get(200, to+"steps"); !strings.Contains(page, "Damaged: ") {
		t.Error("the steps do not say what is missing")
	}
	second := p.upload(303, "2", whole)
	p.upload(303, "3", whole)
	p.get(200, to)
	p.upload(303, "4", whole) // of the same caller: the file looked at longest ago goes
	p.get(200, to)
	p.get(404, second)
}

// Whatever the facts of a file hold, its pages are harmless.
func TestHostileFile(t *testing.T) {
	t.Parallel()
	p := still(t)
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, text := range hostile {
		var records []events.Record
		id := task.ID(events.NewID(now))
		for i, e := range []any{
			task.Submitted{Work: task.Work{Spec: &job.Spec{Run: &job.Run{Argv: []string{text}}}, Labels: map[string]string{"a": text}, Route: placement.QueueRoute("default", 5)}}, task.AttemptStarted{Attempt: 1, Node: text}, task.AttemptFailed{Attempt: 1, Epoch: 2, Reason: "exit", Message: text},
		} {
			f := events.Fact{ID: events.NewID(now), At: now, Type: events.TypeOf(e), Task: id, Actor: text, Event: e}
			raw, err := events.Encode(nil, &f)
			if err != nil {
				t.Fatal(err)
			}
			records = append(records, events.Record{Seq: uint64(i + 1), Stored: now, Place: "mr.task." + string(id), Kind: events.KindChain, Raw: raw, Fact: f})
		}
		var b bytes.Buffer
		if err := incident.WriteAll(&b, incident.Manifest{Around: text, Why: text, Made: now}, records); err != nil {
			t.Fatal(err)
		}
		to := p.upload(303, strings.Map(func(r rune) rune { return max(r, 32) }, text), b.Bytes()) // a browser sends no others in a header
		for _, path := range []string{"", "tasks", "tasks/" + string(id), "events", "events/2", "steps?at=2", "steps?at=3&of=" + url.QueryEscape("task "+string(id)), "dead", "queues", "nodes"} {
			page, _ := p.get(200, to+path)
			p.harmless(path, page)
		}
		page, _ := p.get(200, "/incidents")
		p.harmless("/incidents", page)
	}
}

// exported asks for an incident file, and opens it.
func (p *place) exported(query string) (*incident.File, []byte) {
	p.Helper()
	text, h := p.get(200, "/incidents/export?"+query)
	f, err := incident.Open([]byte(text))
	if err != nil || len(f.Missing) > 0 {
		p.Fatalf("%s: %v, %v is missing", query, err, f)
	}
	if want := fmt.Sprintf(`attachment; filename="incident-%d.mri"`, f.Manifest.To.Seq); h.Get("Content-Disposition") != want || h.Get("Content-Length") != strconv.Itoa(len(text)) {
		p.Errorf("%s comes as %q, of %s bytes; want %q, of %d", query, h.Get("Content-Disposition"), h.Get("Content-Length"), want, len(text))
	}
	return f, []byte(text)
}

// says tells whether the facts or the output of a file contain a text.
func says(t *testing.T, f *incident.File, text string) bool {
	t.Helper()
	for r, err := range f.Whole() {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(r.Raw), text) {
			return true
		}
	}
	for l, err := range f.Output() {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(l.Body), text) {
			return true
		}
	}
	return false
}

// A page writes an incident file around a task or a moment. What people have written is removed
// from it unless an operator keeps it.
func TestExports(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.Settings = map[string]string{"node_ttl": "15s"}
	s := command("echo", "argv-secret")
	s.Params = map[string]json.RawMessage{"key": json.RawMessage(`"param-secret"`)}
	id := p.submit(s)
	birth := p.server.Desk.Reached()
	if err := p.store.Print(t.Context(), output.Lines{Task: id, Attempt: 1, Epoch: 1, Lines: []output.Line{{N: 1, Stream: output.Stdout, Text: "it says param-secret", At: time.Now()}}}); err != nil {
		t.Fatal(err)
	}
	other := p.submit(command("date"))
	around := "around=" + string(id)
	for query, wants := range map[string]struct {
		around               string
		secret, output, bare bool
	}{
		around:                              {"task " + string(id), false, false, false},
		"around=" + id.Short():              {"task " + string(id), false, false, false},
		around + "&logs=1&window=1h":        {"task " + string(id), false, true, false},
		around + "&raw=1":                   {"task " + string(id), true, false, true},
		around + "&raw=1&logs=1":            {"task " + string(id), true, true, true},
		"":                                  {fmt.Sprintf("#%d", p.server.Desk.Reached()), false, false, false},
		fmt.Sprintf("around=%%23%d", birth): {fmt.Sprintf("#%d", birth), false, false, false},
		fmt.Sprintf("at=%d", birth):         {fmt.Sprintf("#%d", birth), false, false, false},
		"around=-1s":                        {"", false, false, false},
	} {
		f, data := p.exported(query)
		m := &f.Manifest
		if wants.around != "" && m.Around != wants.around || m.Raw != wants.bare || m.Outputs != wants.output || wants.output != (m.Output > 0) || (len(m.Rules) > 0) == wants.bare {
			t.Errorf("%q is answered with %+v", query, m)
		}
		if m.Settings["node_ttl"] != "15s" || m.AckWait != p.store.AckWait().String() || m.Tasks != 2 {
			t.Errorf("%q does not say by which settings it judges, or lacks a task: %+v", query, m)
		}
		for _, text := range []string{"param-secret", "argv-secret"} {
			if says(t, f, text) != wants.secret {
				t.Errorf("%q has %s: %t", query, text, !wants.secret)
			}
		}
		if says(t, f, "it says") != wants.output {
			t.Errorf("%q has the output: %t", query, !wants.output)
		}
		if !says(t, f, string(other)) {
			t.Errorf("%q does not have what lived besides", query)
		}
		p.get(200, p.upload(303, "back.mri", data))
	}
	for query, status := range map[string]int{
		"around=01ARZ3NDEKTSV4RRFFQ69G5FAV": 404, "around=VWT2CXX": 404, "around=never": 400, "around=%00": 400, "around=9999999": 400, "around=2999-01-01": 400, "around=" + url.QueryEscape(hostile[0]): 400, "around=2000-01-01": 400,
		around + "&window=25h": 400, around + "&window=-1s": 400, around + "&window=x": 400,
	} {
		page, _ := p.get(status, "/incidents/export?"+query)
		p.harmless(query, page)
	}
	forms := func(path string, want, bare bool) {
		t.Helper()
		page, _ := p.get(200, path)
		if got := strings.Contains(page, "incidents/export"); got != want {
			t.Errorf("%s offers an export: %t", path, got)
		}
		if got := strings.Contains(page, `name="raw"`); got != bare {
			t.Errorf("%s offers to hide nothing: %t", path, got)
		}
	}
	of := "/tasks/" + string(id)
	forms(of, true, true)
	forms(fmt.Sprintf("%s?at=%d", of, birth), true, true)
	forms("/incidents", true, true)
	p.as(rights.Viewer)
	forms(of, true, false)
	forms("/incidents", true, false)
	if f, _ := p.exported(around + "&logs=1"); says(t, f, "param-secret") {
		t.Error("a viewer gets parameters")
	}
	p.get(403, "/incidents/export?"+around+"&raw=1")
	p.as(rights.Submitter)
	forms(of, false, false)
	p.get(403, "/incidents/export?"+around)
	p.as("")
	p.get(401, "/incidents/export?"+around)
}

// lazy is a reader that takes nothing until the test lets it go on.
type lazy struct {
	*httptest.ResponseRecorder
	begun, goOn, done chan struct{}
	deadline          time.Time
}

func (l *lazy) SetWriteDeadline(at time.Time) error { l.deadline = at; return nil }

func (l *lazy) Write(b []byte) (int, error) {
	close(l.begun)
	<-l.goOn
	return l.ResponseRecorder.Write(b)
}

// A slow download keeps no other caller from exporting; a caller has one download at a time, with a
// deadline, and one export reads the log at a time.
func TestSlowExport(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.submit(command("date"))
	const path = "/incidents/export"
	export := func(w http.ResponseWriter, name string) {
		p.Serve(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil), func() (httpapi.Caller, error) {
			return httpapi.Caller{Name: name, Role: rights.Viewer}, nil
		})
	}
	ask := func(name string) *lazy {
		l := &lazy{ResponseRecorder: httptest.NewRecorder(), begun: make(chan struct{}), goOn: make(chan struct{}), done: make(chan struct{})}
		go func() {
			defer close(l.done)
			export(l, name)
		}()
		return l
	}
	var slow []*lazy
	for _, name := range []string{"ada", "ben", "cam"} {
		l := ask(name)
		<-l.begun
		slow = append(slow, l)
		if left := time.Until(l.deadline); left > fetchWithin || left < 0 {
			t.Errorf("%s may fetch for another %v", name, left)
		}
		if name == "ada" { // his own share is taken, and there is room for others
			if _, h := p.get(503, path); h.Get("Retry-After") == "" {
				t.Error("it is not said when to come again")
			}
		}
	}
	refused := httptest.NewRecorder()
	export(refused, "dan")
	if refused.Code != 503 {
		t.Errorf("a fourth is answered with %d", refused.Code)
	}
	for _, l := range slow {
		close(l.goOn)
		<-l.done
		if f, err := incident.Open(l.Body.Bytes()); err != nil || len(f.Missing) > 0 {
			t.Errorf("a slow one gets no whole file: %v", err)
		}
	}
	p.exported("")
	err := p.server.Desk.Survey(t.Context(), func(context.Context, answers.Survey) error {
		p.get(503, path)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	p.exported("")
}

// A file that is too large ends where it is.
func TestBounded(t *testing.T) {
	t.Parallel()
	b := bounded{most: 10}
	if n, err := b.Write(make([]byte, 10)); n != 10 || err != nil {
		t.Error(n, err)
	}
	if _, err := b.Write([]byte{1}); answers.ProblemOf(err).Status != 413 || b.Len() != 10 {
		t.Errorf("%v, with %d bytes", err, b.Len())
	}
}
