package pages

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/incident"
	"millrace/jet/roles"
	"millrace/task"
	"millrace/task/where"
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

// known is an incident file that everybody knows.
func known(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile("../../../examples/incidents/reconnected-old.mri")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// stuck is the task in it that waited for ever.
const stuck = "01KJN7E0Z06P8RXA7D3Q5VWT2C"

// An incident file is a world of its own: all pages show it as of any moment, without buttons, and each link stays in it.
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
	for path, status := range map[string]int{"?at=5": 400, "?at=9999999": 400, "?at=never": 400, "tasks/" + stuck + "/compare": 404, "verify": 404, "edit/job": 404, "tasks/01ARZ3NDEKTSV4RRFFQ69G5FAV": 404} {
		p.get(status, to+path)
	}
	p.get(404, "/incidents/other/tasks")
	p.get(404, "/steps")
	p.as(roles.Submitter)
	p.get(403, to+"tasks/"+stuck)
	p.press(403, strings.TrimSuffix(to, "/")+"/close")
	p.upload(403, "x.mri", known(t))
	p.as("")
	p.get(401, to)
	p.as(roles.Viewer)
	if _, h := p.press(303, to+"close"); h.Get("Location") != "../../incidents" {
		t.Errorf("who closes a file is led to %s", h.Get("Location"))
	}
	p.get(404, to)
}

// Who steps through a file has where he stands in the URL, and sees what changed, who decided from what, and who owed what.
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
		return page
	}
	for what, c := range map[string]struct {
		query []string
		want  []string
	}{
		"a point":            {[]string{"at", "1048189"}, []string{">#1048189</a> <code>attempt.started", "<code>state</code>", "&#34;pending&#34;", "decided", "b NO, unproved", "node b", "▸ #1048189"}},
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

// What is damaged, too large, no incident file or one too many is refused, or says what is missing.
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
	p.upload(303, "4", whole) // of the same caller: what he has looked at least goes
	p.get(200, to)
	p.get(404, second)
}

// Whatever the facts of a file say, its pages are harmless.
func TestHostileFile(t *testing.T) {
	t.Parallel()
	p := still(t)
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, text := range hostile {
		var records []events.Record
		id := task.ID(events.NewID(now))
		for i, e := range []any{
			task.Submitted{Work: task.Work{Spec: &task.Spec{Run: &task.Run{Argv: []string{text}}}, Labels: map[string]string{"a": text}, Route: where.QueueRoute("default", 5)}}, task.AttemptStarted{Attempt: 1, Node: text}, task.AttemptFailed{Attempt: 1, Epoch: 2, Reason: "exit", Message: text},
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
