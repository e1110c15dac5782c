package pages

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"millrace/events/jet/rights"
	"millrace/internal/testkit"
	"millrace/service/httpapi"
	"millrace/task"
)

// Buttons are verbs, under the rights of the user who presses them.
func TestActions(t *testing.T) {
	t.Parallel()
	p := open(t)
	id := p.submit(command("date"))
	of := "/tasks/" + string(id)
	p.as(rights.Viewer)
	if page, _ := p.get(200, of); strings.Contains(page, `method="post"`) {
		t.Error("a viewer has buttons")
	}
	p.press(403, "/do/task.cancel", "id", string(id))
	p.as(rights.Submitter)
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
	p.as(rights.Operator)
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

// What a button asks for is a field of its request, and it stands where a page has such things.
func TestButtonsAreOfTheirVerbs(t *testing.T) {
	t.Parallel()
	nouns := []string{"tasks", "dead", "messages", "nodes", "queues", "schedules", "jobs", "breakers", "calendars", "dismissed"} // the last is no page: an undo leads there
	for _, e := range offered() {
		form := url.Values{}
		for _, a := range e.Button.Asks {
			if form.Set(a.Name, "1"); a.Label == "" {
				t.Errorf("%s asks for %s without a word", e.Verb, a.Name)
			}
		}
		if e.Of != "" {
			form.Set(e.Of, "1")
		}
		if e.Reasons() {
			form.Set("reason", "why")
		}
		if _, err := httpapi.Form(e.Verb, form); err != nil {
			t.Errorf("the button of %s asks for another request: %v", e.Verb, err)
		}
		for _, noun := range e.Button.On {
			if !slices.Contains(nouns, noun) {
				t.Errorf("%s stands on pages of %s", e.Verb, noun)
			}
		}
		if e.Button.Why == "" || e.Button.Label == "" || e.Verb.Access() == rights.Reading {
			t.Errorf("%s: %+v", e.Verb, e.Button)
		}
	}
}

// What can be taken back is offered once, on the page that follows, to who may do it.
func TestUndo(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.node("w1", ready("w1")...)
	_, h := p.press(303, "/do/queue.pause?queue=crawl&back=%2Fqueues%3Fcursor%3D", "reason", "for now")
	to := strings.TrimPrefix(h.Get("Location"), "..")
	page, _ := p.get(200, to)
	p.says(page, `action="./do/queue.resume?queue=crawl"`, `<b class="name">crawl</b>`, `name="back" value="/queues`)
	if strings.Contains(page, "did=") || strings.Count(page, "did") > 2 {
		t.Errorf("links of the page say again what was done: %s", page)
	}
	if _, h = p.press(303, "/do/queue.resume?queue=crawl&back=%2Fqueues"); !strings.Contains(h.Get("Location"), "did=queue.resume") {
		t.Errorf("it leads to %s", h.Get("Location"))
	}
	for _, none := range []string{"/queues", "/queues?did=queue.purge&thing=crawl", "/queues?did=x"} {
		if page, _ = p.get(200, none); strings.Contains(page, `id="did"`) {
			t.Errorf("%s offers to take something back", none)
		}
	}
	p.as(rights.Viewer)
	if page, _ = p.get(200, to); strings.Contains(page, `id="did"`) {
		t.Error("a viewer may take it back")
	}
}
