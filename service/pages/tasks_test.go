package pages

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"html"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"millrace/events"
	"millrace/events/jet/rights"
	"millrace/task"
	"millrace/task/output"
)

// An action on many tasks is counted first, confirmed, and done as one batch to the chosen tasks.
func TestBulk(t *testing.T) {
	t.Parallel()
	p := open(t)
	var ids []task.ID
	for range 3 {
		ids = append(ids, p.submit(command("date")))
	}
	other := p.submit(command("uname"))
	page, _ := p.get(200, "/tasks")
	if strings.Count(page, `type="checkbox" name="task"`) != 4 || !strings.Contains(page, `formaction="./bulk/cancel"`) {
		t.Error("tasks cannot be chosen")
	}
	page, _ = p.get(200, "/bulk/cancel?q=date")
	if !strings.Contains(page, "This would affect <b>3</b> tasks") || !strings.Contains(page, ids[0].Short()) || strings.Contains(page, other.Short()) || !strings.Contains(page, `name="count" value="3"`) {
		t.Errorf("what would be done is not said: %s", page)
	}
	page, _ = p.get(200, "/bulk/cancel?of=chosen&q=date")
	if !strings.Contains(page, "No task is selected") || strings.Contains(page, `method="post"`) {
		t.Error("without a choice all are chosen")
	}
	page, _ = p.press(200, "/bulk/cancel", "q", "date", "count", "2")
	if !strings.Contains(page, "By now it is 3 tasks") {
		t.Errorf("more are cancelled than were confirmed: %s", page)
	}
	page, _ = p.press(200, "/bulk/cancel", "task", string(ids[0]), "count", "1", "reason", "no more")
	if !strings.Contains(page, "1 task: done") {
		t.Errorf("it is not done: %s", page)
	}
	page, _ = p.press(200, "/bulk/cancel", "q", "date", "count", "2", "reason", "no more")
	if !strings.Contains(page, "2 tasks: done") {
		t.Errorf("it is not done: %s", page)
	}
	first, _ := p.client.Task(t.Context(), ids[1])
	second, err := p.client.Task(t.Context(), ids[2])
	if err != nil || first.State != task.Cancelled || second.State != task.Cancelled || first.Batch == "" || first.Batch != second.Batch || second.Message != "no more" {
		t.Errorf("they are %s of batch %q and %s of batch %q, %v", first.State, first.Batch, second.State, second.Batch, err)
	}
	if got, err := p.client.Task(t.Context(), other); err != nil || got.State != task.Pending {
		t.Errorf("another task is %s, %v", got.State, err)
	}
	p.press(200, "/bulk/cancel", "task", string(other), "batch", first.Batch)
	if got, err := p.client.Task(t.Context(), other); err != nil || got.State != task.Cancelled || got.Batch != first.Batch {
		t.Errorf("who goes on leaves %s of batch %q, %v", got.State, got.Batch, err)
	}
	if page, _ = p.get(200, "/bulk/cancel?task="+string(ids[0])); !strings.Contains(page, "No task can be changed this way") {
		t.Errorf("what has ended can be cancelled: %s", page)
	}
	p.get(404, "/bulk/submit")
	p.press(404, "/bulk/submit", "q", "date", "count", "3")
	for query, want := range map[string]string{"q=sate%3Aerror": "do you mean state", "q=state%3Aerror": "have ended"} {
		if page, _ := p.get(200, "/bulk/cancel?"+query); !strings.Contains(page, want) || strings.Contains(page, `method="post"`) {
			t.Errorf("%s is not refused: %s", query, page)
		}
	}
	p.press(400, "/bulk/cancel", "q", "sate:error", "count", "3")
	if page, _ := p.get(200, "/bulk/cancel?at=1"); !strings.Contains(page, "read-only") || strings.Contains(page, `method="post" action="../bulk`) {
		t.Error("tasks of the past are cancelled")
	}
	kept := p.submit(command("date"))
	for _, path := range []string{"/bulk/cancel?at=1", "/run/task/" + string(kept) + "?at=" + fmt.Sprint(p.server.Desk.Reached())} {
		if page, _ := p.press(200, path, "task", string(kept), "count", "1"); !strings.Contains(page, "read-only") {
			t.Errorf("a form of the past does something: %s", page)
		}
	}
	if got, err := p.client.Task(t.Context(), kept); err != nil || got.State != task.Pending {
		t.Errorf("a form of the past leaves the task %s, %v", got.State, err)
	}
	p.as(rights.Viewer)
	p.get(403, "/bulk/cancel")
	p.press(403, "/bulk/cancel", "q", "date", "count", "3")
	if page, _ := p.get(200, "/tasks"); strings.Contains(page, "checkbox\" name=\"task") || strings.Contains(page, "bulk/cancel") {
		t.Error("a viewer chooses tasks")
	}
}

// Many are confirmed by typing how many they are.
func TestBulkIsTyped(t *testing.T) {
	t.Parallel()
	d := bulkData{}
	for _, c := range []struct {
		now          int
		count, typed string
		fine         bool
	}{{3, "3", "", true}, {2, "3", "", true}, {4, "3", "", false}, {3, "", "", false}, {1204, "1204", "", false}, {1204, "1204", "12", false}, {1204, "1204", " 1,204", true}, {90, "1204", "", false}} {
		if d.Would.Chosen = c.now; (d.differs(c.count, c.typed) == "") != c.fine {
			t.Errorf("%d tasks, %s of which were confirmed by %q: %s", c.now, c.count, c.typed, d.differs(c.count, c.typed))
		}
	}
}

// The URL names the columns that are shown.
func TestColumns(t *testing.T) {
	t.Parallel()
	p := open(t)
	s := command("date")
	s.Labels = map[string]string{"env": "prod"}
	p.submit(s)
	page, _ := p.get(200, "/tasks?col=id&col=labels&col=submitted&col=none")
	if !strings.Contains(page, "<td>env=prod</td>") || strings.Contains(page, `class="c-state"`) || strings.Count(page, `<time`) != 2 || !strings.Contains(page, `value="labels" checked`) {
		t.Errorf("other columns are shown: %s", page)
	}
	if page, _ = p.get(200, "/tasks"); strings.Contains(page, "<td>env=prod") || !strings.Contains(page, `class="c-state"`) || !strings.Contains(page, `value="why" checked`) {
		t.Error("the usual columns are not shown")
	}
	for _, link := range links(t, page) {
		if strings.Contains(link, "state%3A") && !strings.HasPrefix(link, "./tasks") {
			t.Errorf("a tab leads to %s", link)
		}
	}
}

// The tasks that a query chooses can be downloaded as CSV with all columns, in which no program
// sees formulas, or as lines of JSON.
func TestExport(t *testing.T) {
	t.Parallel()
	p := open(t)
	for i, text := range []string{"=cmd|'/c calc'!A1", "a,\"b\"\nc", "plain"} {
		s := command(text)
		s.Labels = map[string]string{"n": fmt.Sprint(i)}
		p.submit(s)
	}
	text, h := p.get(200, "/tasks/export?as=csv")
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(rows) != 4 || !strings.HasPrefix(h.Get("Content-Disposition"), "attachment") {
		t.Fatalf("the file is %s, %v", text, err)
	}
	what := slices.Index(rows[0], "what")
	for _, row := range rows[1:] {
		if strings.HasPrefix(row[what], "=") || row[0] != "pending" {
			t.Errorf("a row is %q", row)
		}
	}
	text, _ = p.get(200, "/tasks/export?as=jsonl&q=label%3An%3D1")
	var is task.Task
	if err := json.Unmarshal([]byte(text), &is); err != nil || is.Labels["n"] != "1" || strings.Count(text, "\n") != 1 {
		t.Errorf("the lines are %s, %v", text, err)
	}
	for _, page := range []string{"/", "/tasks", "/queues", "/nodes", "/events", "/jobs", "/schedules"} {
		if text, _ := p.get(400, page+"?at=2999-01-01T00:00:00Z"); !strings.Contains(text, `2999-01-01 00:00:00 UTC</time> has not come yet`) || strings.Contains(text, "openapi") || !strings.Contains(text, `value="2999-01-01T00:00:00Z"`) {
			t.Errorf("%s shows a time that has not come: %s", page, text)
		}
		p.get(400, page+"?at=9999999")
	}
	if text, _ = p.get(200, "/tasks/export?as=csv&at=1"); strings.Count(text, "\n") != 2 {
		t.Errorf("then it was %s", text)
	}
	p.get(400, "/tasks/export?as=xls")
	p.get(400, "/tasks/export?as=csv&q=sate%3Aerror")
	p.as(rights.Submitter)
	p.get(403, "/tasks/export?as=csv")
	p.get(403, "/tasks/complete?q=s")
}

// Tasks are found by the records of their latest attempts, among so many at once; the page says how many those were.
func TestSearchOfRecords(t *testing.T) {
	t.Parallel()
	p := open(t)
	first := p.submit(command("date"))
	report := func(id task.ID, items ...string) {
		t.Helper()
		epoch := p.attempt(id, 0, task.AttemptStarted{Attempt: 1, Node: "w1"})
		p.seen()
		for _, b := range []output.Records{{Epoch: epoch - 1, Items: []json.RawMessage{[]byte(`{"rows":99}`)}}, {Epoch: epoch}} {
			b.Task, b.Attempt = id, 1
			if b.Epoch == epoch {
				for _, item := range items {
					b.Items = append(b.Items, json.RawMessage(item))
				}
			}
			if err := p.store.Keep(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}
	}
	report(first, `7`, `{"rows":7,"at":{"zone":"eu"}}`, `{"rows":8}`)
	second := p.submit(command("date"))
	report(second, `{"rows":8,"at":{"zone":"eu"}}`)
	p.submit(command("sleep")) // never begun
	for query, want := range map[string][]task.ID{
		"record.rows:8": {first, second}, "record.rows:7.0": {first}, "record.at.zone:eu record.rows:8": {second}, "record.rows:8 state:pending": nil,
		"record.rows:99": nil, "record.rows:eu": nil, `record.rows:8 "date"`: {first, second},
	} {
		page, _ := p.get(200, "/tasks?q="+url.QueryEscape(query))
		for _, id := range []task.ID{first, second} {
			if strings.Contains(page, `id="t-`+string(id)) != slices.Contains(want, id) {
				t.Errorf("%s does not find %v: %s", query, want, page)
			}
		}
		p.says(page, "read.", " data-still")
	}
	page, _ := p.get(200, "/bulk/cancel?q=record.rows%3A7")
	p.says(page, "1 task")
	page, _ = p.get(200, "/tasks?q=record.rows%3A7&at="+fmt.Sprint(p.server.Desk.Reached()))
	p.says(page, "records are searched in the present only")
	for range 500 {
		if _, err := p.client.Submit(t.Context(), command("date")); err != nil {
			t.Fatal(err)
		}
	}
	p.seen()
	page, _ = p.get(200, "/tasks?q=record.rows%3A7")
	p.says(page, "The records of 500 tasks were read", "None of these matches")
	page, _ = p.get(200, "/tasks"+html.UnescapeString(part(t, page[strings.Index(page, "tasks were read"):], `href="./tasks`, `"`)))
	p.says(page, `id="t-`+string(first), "The records of 3 tasks were read")
	text, _ := p.get(200, "/tasks/export?as=jsonl&q=record.rows%3A8")
	if strings.Count(text, "\n") != 2 {
		t.Errorf("the file is %s", text)
	}
}

// The records of the latest attempt are shown as a table, and exported as one, or as lines of JSON.
func TestRecords(t *testing.T) {
	t.Parallel()
	p := open(t)
	id := p.submit(command("date"))
	now := p.client.Now()
	epoch, err := p.store.Append(t.Context(), &events.Fact{ID: events.NewID(now), At: now, Type: events.AttemptStarted, Task: id, Event: task.AttemptStarted{Attempt: 2, Node: "w1", Session: events.NewID(now)}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	p.seen()
	keep := func(epoch uint64, first int, items ...string) {
		t.Helper()
		b := output.Records{Task: id, Attempt: 1, Epoch: epoch, First: first}
		for _, item := range items {
			b.Items = append(b.Items, json.RawMessage(item))
		}
		if err := p.store.Keep(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	keep(epoch-1, 0, `{"url":"of another attempt"}`)
	var many []string
	for i := range shownRecords {
		many = append(many, fmt.Sprintf(`{"url":"page %d","n":%d}`, i, -i))
	}
	keep(epoch, 0, many...)
	keep(epoch, shownRecords, `{"url":"=1+1","title":"a,\"b\""}`, `7`)
	of := "/tasks/" + string(id)
	page, _ := p.get(200, of)
	for _, want := range []string{"<th>url</th>", "page 49", "The first 50 are shown", string(id) + "/records?as=csv", string(id) + "/records?as=jsonl"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not have %s", want)
		}
	}
	if strings.Contains(page, "of another attempt") {
		t.Error("what does not count is shown")
	}
	text, h := p.get(200, of+"/records?as=csv")
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(rows) != 53 || !strings.HasPrefix(h.Get("Content-Disposition"), "attachment") {
		t.Fatalf("the file is %s, %v", text, err)
	}
	for at, want := range map[int][]string{0: {"url", "n", "title", "value"}, 50: {"page 49", "-49", "", ""}, 51: {"'=1+1", "", `a,"b"`, ""}, 52: {"", "", "", "7"}} {
		if !slices.Equal(rows[at], want) {
			t.Errorf("row %d is %q, want %q", at, rows[at], want)
		}
	}
	text, _ = p.get(200, of+"/records?as=jsonl")
	if lines := strings.Split(text, "\n"); len(lines) != 53 || lines[51] != "7" || lines[0] != many[0] {
		t.Errorf("the lines are %q", text)
	}
	p.get(400, of+"/records?as=xls")
	p.get(400, "/tasks/none/records?as=csv")
	p.get(404, "/tasks/01ARZ3NDEKTSV4RRFFQ69G5FAV/records?as=csv")
	p.as(rights.Submitter)
	p.get(403, of+"/records?as=csv")
}

// The query bar knows the names that there are.
func TestCompletion(t *testing.T) {
	t.Parallel()
	p := open(t)
	s := command("date")
	s.Queue, s.Labels = "crawl", map[string]string{"env": "prod"}
	p.submit(s)
	p.node("w1", ready("s1")...)
	for query, want := range map[string]string{"qu": "queue:", "queue:c": "queue:crawl", "label:e": "label:env=prod", "node:": "node:w1", "state:pend": "state:pending"} {
		text, _ := p.get(200, "/tasks/complete?q="+query)
		var all []struct{ Shown string }
		if err := json.Unmarshal([]byte(text), &all); err != nil || len(all) != 1 || all[0].Shown != want {
			t.Errorf("%s may become %s, %v", query, text, err)
		}
	}
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/tasks/complete?q=a+xyz&cursor=x", nil)
	w := httptest.NewRecorder()
	if p.ServeHTTP(w, r); w.Body.String() != "[]" {
		t.Errorf("a word that is none becomes %s", w.Body)
	}
}

// Beside the list stand the queues and jobs that there are, with numbers; each row has the commands that its state
// allows.
func TestFacets(t *testing.T) {
	t.Parallel()
	p := open(t)
	s := command("date")
	s.Queue = "crawl"
	id := p.submit(s)
	p.submit(command("date"))
	page, _ := p.get(200, "/tasks")
	p.says(page, `href="./tasks?q=queue%3Acrawl"><span>crawl</span> <small>1</small>`, `<a class="button" href="./bulk/cancel?task=`+string(id)+`"`)
	if strings.Contains(page, "bulk/retry?task=") {
		t.Error("what waits can be retried")
	}
	page, _ = p.get(200, "/tasks?q=queue%3Acrawl+state%3Apending")
	p.says(page, `href="./tasks?q=state%3Apending" aria-current="true"><span>crawl</span>`, `href="./tasks?q=queue%3Adefault&#43;state%3Apending"`)
	page, _ = p.get(200, "/tasks?q=state%3Aerror")
	if strings.Contains(page, "<span>crawl</span>") {
		t.Error("a queue without failures is offered among failures")
	}
	p.as(rights.Viewer)
	if page, _ = p.get(200, "/tasks"); strings.Contains(page, "bulk/") {
		t.Error("a viewer is led to commands")
	}
}
