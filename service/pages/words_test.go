package pages

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"millrace/events/jet/rights"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/param"
	"millrace/task/value"
)

// What a person is told to do is a button in the sentence, without a date that does not bind them.
func TestPrompts(t *testing.T) {
	t.Parallel()
	p := open(t)
	s := command("date")
	s.Queue = "mail"
	id := p.submit(s)
	if _, err := p.client.PauseQueue(t.Context(), "mail", 0, "spam"); err != nil {
		t.Fatal(err)
	}
	p.seen()
	of := "/tasks/" + string(id)
	page, _ := p.get(200, of)
	duty := part(t, page, `<div class="duty`, `</section>`)
	for _, want := range []string{"<b>Operator</b> must act:", `action="../do/queue.resume?queue=mail"`, ": it is paused by", "since <time datetime"} {
		if !strings.Contains(duty, want) {
			t.Errorf("the duty lacks %s: %s", want, duty)
		}
	}
	if strings.Contains(duty, "must act by") || strings.Contains(duty, "millrace queue resume") || strings.Contains(duty, "(0s ago)") {
		t.Errorf("the duty has a date that binds nobody, or a command for its button: %s", duty)
	}
	p.as(rights.Viewer)
	if page, _ = p.get(200, of); !strings.Contains(page, "<code>millrace queue resume mail</code>") || strings.Contains(page, "do/queue.resume") {
		t.Errorf("who may not resume a queue has a button, or no command: %s", page)
	}
	p.as(rights.Operator)
	held := p.submit(birth.Submission{Spec: &job.Spec{Run: &job.Run{Argv: []string{"date"}}, Signal: &job.Signal{}}})
	if page, _ = p.get(200, "/tasks/"+string(held)); !strings.Contains(part(t, page, `<div class="duty`, `</section>`), `action="../do/task.signal?id=`+string(held)+`"`) {
		t.Errorf("a task that waits for a signal has no button in the sentence: %s", page)
	}
}

// A task that asks for answers has a field for each in its buttons, on its page and on the overview; only those
// whom it names may press.
func TestAnswers(t *testing.T) {
	t.Parallel()
	p := open(t)
	ask := func(who string) task.ID {
		form := []param.Param{{Name: "when", Title: "When", Enum: []json.RawMessage{[]byte(`"now"`), []byte(`"tonight"`)}}, {Name: "share", Type: param.Integer, Max: new(value.Number("50")), Default: []byte("10")}}
		return p.submit(birth.Submission{Spec: &job.Spec{Run: &job.Run{Argv: []string{"date"}}, Signal: &job.Signal{Name: "go", Form: form, Who: []string{who}}}})
	}
	id := ask("ada")
	for path, from := range map[string]string{"/tasks/" + string(id): `<div class="duty`, "/": `<section id="needs"`} {
		page, _ := p.get(200, path)
		p.says(part(t, page, from, "</section>"), `do/task.reject?id=`+string(id), `<select name="texts[when]" required>`, `<option>tonight</option>`, `type="number" name="texts[share]" value="10" max="50"`, "only ada may")
	}
	page, _ := p.press(400, "/do/task.signal?id="+string(id), "texts[share]", "80")
	p.says(page, "when is missing", "at most 50")
	p.press(303, "/do/task.signal?id="+string(id), "texts[when]", "tonight", "texts[share]", "20", "reason", "go")
	is, err := p.client.Task(t.Context(), id)
	if err != nil || is.State != task.Pending || string(is.Inputs) != `{"go":{"by":"ada","data":{"share":20,"when":"tonight"}}}` {
		t.Errorf("it is %s and told %s, %v", is.State, is.Inputs, err)
	}
	other := ask("bob")
	for _, verb := range []string{"signal", "reject"} {
		page, _ = p.press(403, "/do/task."+verb+"?id="+string(other), "reason", "")
		p.says(page, "bob may give or refuse it, and not ada")
	}
	mine := ask("a*")
	p.press(303, "/do/task.reject?id="+string(mine), "reason", "not today")
	page, _ = p.get(200, "/tasks/"+string(mine))
	p.says(page, "rejected by ada: not today")
}

// part cuts a part out of a page.
func part(t *testing.T, page, from, to string) string {
	t.Helper()
	_, rest, ok := strings.Cut(page, from)
	if !ok {
		t.Fatalf("there is no %s in %s", from, page)
	}
	rest, _, _ = strings.Cut(rest, to)
	return rest
}

// A node that is silent is in trouble on the overview, as on the page of nodes.
func TestSilentOnOverview(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.node("w1", ready("w1")...) // without a heartbeat
	page, _ := p.get(200, "/")
	nodes := part(t, page, `<div id="nodes"`, `</table>`)
	if !strings.Contains(nodes, "silent") || strings.Contains(nodes, "✓") || strings.Contains(nodes, "its probe came through") {
		t.Errorf("a silent node is shown as %s", nodes)
	}
}

// A moment before the log begins is its beginning, also for what has changed since.
func TestBeforeTheLog(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.submit(command("date"))
	for _, path := range []string{"/?at=2001-01-01", "/tasks?at=20000d", "/diff", "/diff?from=2001-01-01", "/diff?from=10m"} {
		page, _ := p.get(200, path)
		if strings.Contains(page, `class="wrong"`) || strings.Contains(path, "at=") && !strings.Contains(page, `data-then="1"`) {
			t.Errorf("%s is not the beginning: %s", path, page)
		}
	}
}

// The page of an error keeps the bar of moments, and speaks to a person.
func TestErrorsKeepTheBar(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.submit(command("date"))
	for path, status := range map[string]int{"/?at=99999": 400, "/tasks?at=noon": 400, "/tasks/01ARZ3NDEKTSV4RRFFQ69G5FAV": 404} {
		page, _ := p.get(status, path)
		if !strings.Contains(page, `id="at"`) || !strings.Contains(page, `id="slider"`) {
			t.Errorf("%s has no bar: %s", path, page)
		}
		if strings.Contains(page, "openapi") || strings.Contains(page, "The request") || strings.Contains(page, "urn:") || strings.Contains(page, "data-now") {
			t.Errorf("%s speaks to a program: %s", path, page)
		}
	}
}

// A moment of the past says how long ago it was.
func TestAgesOfMoments(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.submit(command("date"))
	page, _ := p.get(200, "/?at=1")
	head := part(t, page, `<span id="head">`, `</form>`)
	if !strings.Contains(head, `<small class="ago">`) {
		t.Errorf("the moment does not age: %s", head)
	}
}

// Who cancelled a task and why stands where its end is shown.
func TestCancelledBy(t *testing.T) {
	t.Parallel()
	p := open(t)
	id := p.submit(command("date"))
	p.press(303, "/do/task.cancel?id="+string(id), "reason", "wrong file", "back", "/")
	page, _ := p.get(200, "/tasks/"+string(id))
	if cause := part(t, page, `<p class="cause`, `</p>`); !strings.Contains(cause, "cancelled by ") || !strings.Contains(cause, "ada") || !strings.HasSuffix(cause, ": wrong file</span>") || strings.Contains(cause, "<b>user</b>") {
		t.Errorf("the end of a cancelled task is told as %s", cause)
	}
}

// Times in texts are times of the page.
func TestClocks(t *testing.T) {
	for text, want := range map[string]string{
		"not started by 2026-11-28T00:27:22Z": `not started by <time datetime="2026-11-28T00:27:22Z" title="2026-11-28T00:27:22Z">2026-11-28 00:27:22 UTC</time>`,
		"<b> 2026-11-28 00:27:22":             "&lt;b&gt; 2026-11-28 00:27:22",
		"2026-99-28T00:27:22Z":                "2026-99-28T00:27:22Z",
	} {
		if got := string(clocks(text)); got != want {
			t.Errorf("%q is shown as %s, want %s", text, got, want)
		}
	}
}

// Tasks are found by a parameter, and not by a word in the script of their job.
func TestSearchByParameter(t *testing.T) {
	t.Parallel()
	p := open(t)
	var ids []task.ID
	for _, name := range []string{"acme", "globex"} {
		s := command("crawl")
		s.Params = map[string]json.RawMessage{"customer": json.RawMessage(strconv.Quote(name))}
		ids = append(ids, p.submit(s))
	}
	page, _ := p.get(200, "/tasks?q=param.customer%3Aglobex")
	if strings.Contains(page, `id="t-`+string(ids[0])) || !strings.Contains(page, `id="t-`+string(ids[1])) {
		t.Errorf("the search by a parameter shows other tasks: %s", page)
	}
	last := p.server.Desk.Reached()
	if page, _ = p.get(200, fmt.Sprintf("/tasks?q=globex&at=%d", last)); !strings.Contains(page, "texts are searched in the present only: choose tasks of the past by job, label, parameter, state or time") {
		t.Error("the page of a text of the past does not say that texts are searched in the present")
	}
	if page, _ = p.get(200, fmt.Sprintf("/tasks?q=param.customer%%3Aglobex&at=%d", last)); strings.Contains(page, `id="t-`+string(ids[0])) || !strings.Contains(page, `id="t-`+string(ids[1])) {
		t.Errorf("the search by a parameter in the past shows other tasks: %s", page)
	}
	if page, _ = p.get(200, "/bulk/cancel?q=param.customer%3Aglobex"); !strings.Contains(page, ids[1].Short()) || strings.Contains(page, ids[0].Short()) {
		t.Errorf("a command for many acts on others: %s", page)
	}
}
