package pages

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/events"
	"millrace/events/jet/rights"
	"millrace/events/submit"
	"millrace/internal/testkit"
	"millrace/service/answers"
	"millrace/service/httpapi"
	"millrace/service/notices"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/param"
	"millrace/task/value"
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
	if to := h.Get("Location"); to != "../tasks/"+string(id)+"?did=task.cancel&thing="+string(id)+"&x=1" {
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
			if form.Set(a.Name, "1"); a.Label == "" && a.Is == nil {
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

// What was done is said once, on the page that follows, to who may do it, with a button that takes it back if there is one.
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
	page, _ = p.get(200, "/tasks?did=task.cancel&thing=01JD6Z8V3M0QK4T7W2X9Y5ABCD")
	if said := part(t, page, `<form id="did"`, "</form>"); !strings.Contains(said, `<b class="name">`+task.ID("01JD6Z8V3M0QK4T7W2X9Y5ABCD").Short()+`</b>: done.`) || strings.Contains(said, "button") {
		t.Errorf("what cannot be taken back is said by %s", said)
	}
	for _, none := range []string{"/queues", "/queues?did=queue.pause", "/queues?did=task.get&thing=crawl", "/queues?did=x&thing=crawl"} {
		if page, _ = p.get(200, none); strings.Contains(page, `id="did"`) {
			t.Errorf("%s offers to take something back", none)
		}
	}
	p.as(rights.Viewer)
	if page, _ = p.get(200, to); strings.Contains(page, `id="did"`) {
		t.Error("a viewer may take it back")
	}
}

// told makes a notice about a task, as servers send it, and returns where its links begin.
func (p *place) told(t task.Task, at time.Time, do ...string) string {
	p.Helper()
	secret := strings.Repeat("S", 26)
	s, err := notices.Submission(task.DerivedID(t.ID, strings.Join(do, " ")+at.String()), p.client.Now(), &notices.Notice{To: "oncall", Kind: notices.Waiting, Task: t.ID})
	if err != nil {
		p.Fatal(err)
	}
	r, err := (&submit.Maker{Store: p.client.DeskStore(), Rec: &events.Recorder{Log: p.store, Actor: events.PartServer, Hints: p.store, Now: p.client.Now, NewID: events.NewID}}).Submit(p.Context(), s)
	if err != nil {
		p.Fatal(err)
	}
	permit, err := json.Marshal(notices.Permit{Task: t.ID, Seq: t.Seq, Life: t.Life, Epoch: t.Epoch, Do: do, Hash: value.Digest([]byte(secret))})
	if err != nil {
		p.Fatal(err)
	}
	epoch := p.attempt(r.ID, 0, task.AttemptStarted{Attempt: 1, Node: "w1"})
	p.attempt(r.ID, epoch, task.AttemptStepped{Attempt: 1, Epoch: epoch, Steps: []task.Step{{Name: "links", Kind: task.StepDo, Result: permit, At: at}}})
	p.seen()
	return "/act/" + do[0] + "/" + string(r.ID) + "-" + secret
}

// attempt records an event of a task behind its last one, and returns its sequence.
func (p *place) attempt(id task.ID, last uint64, e task.Event) uint64 {
	p.Helper()
	now := p.client.Now()
	seq, err := p.store.Append(p.Context(), &events.Fact{ID: events.NewID(now), At: now, Type: events.TypeOf(e), Task: id, Event: e}, last)
	if err != nil {
		p.Fatal(err)
	}
	return seq
}

// fails has a task fail.
func (p *place) fails(id task.ID, head uint64) task.Task {
	p.Helper()
	epoch := p.attempt(id, head, task.AttemptStarted{Attempt: 1, Node: "w1"})
	p.attempt(id, epoch, task.AttemptFailed{Attempt: 1, Epoch: epoch, Reason: "exit", Message: "exit code 7"})
	p.seen()
	t, err := p.client.Task(p.Context(), id)
	if err != nil || t.State != task.Error {
		p.Fatalf("the task is %s, %v", t.State, err)
	}
	return t
}

// Links of notices do one thing to one task, once, for whoever has them, and nothing for whoever does not, or only
// looks.
func TestLinksOfNotices(t *testing.T) {
	t.Parallel()
	p := open(t)
	now := p.client.Now()
	form := []param.Param{{Name: "when"}}
	waits := func() task.Task {
		id := p.submit(birth.Submission{Spec: &job.Spec{Run: &job.Run{Argv: []string{"date"}}, Signal: &job.Signal{Form: form}}})
		is, err := p.client.Task(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return is
	}
	last := func() uint64 {
		seq, err := p.store.Last(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return seq
	}
	p.as("")
	one := waits()
	link := p.told(one, now, "approve", "reject")
	for name, bad := range map[string]string{
		"another secret": link[:len(link)-1] + "T", "no secret": link[:len(link)-27], "a longer one": link + "S",
		"another act": strings.Replace(link, "approve", "retry", 1), "no act": strings.Replace(link, "approve", "purge", 1),
		"another notice": strings.Replace(link, "MADEBY", "MADEBX", 1), "the task": "/act/approve/" + string(one.ID) + "-" + strings.Repeat("S", 26),
		"words": "/act/approve/x",
	} {
		before := last()
		if page, _ := p.get(404, bad); strings.Contains(page, one.ID.Short()) {
			t.Errorf("%s: it says %s", name, page)
		}
		if p.press(404, bad); last() != before {
			t.Errorf("%s: it does something", name)
		}
	}
	before := last()
	for range 3 { // as those do who look at mail before its reader
		page, _ := p.get(200, link)
		p.says(page, "Approve: date", `name="texts[when]"`, "notice:oncall", `method="post"`)
		w := httptest.NewRecorder()
		if p.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodHead, link, nil)); w.Code != 200 {
			t.Errorf("HEAD is answered with %d", w.Code)
		}
	}
	if p.press(400, link); last() != before {
		t.Error("looking at it, or an answer that is missing, has done something")
	}
	_, h := p.press(303, link, "texts[when]", "now", "reason", "fine", "id", "01K9XA7F3BQZ8M4T2VJ6C0DPRN")
	if to := h.Get("Location"); to != "../.."+link {
		t.Errorf("it leads to %s", to)
	}
	got, err := p.client.Task(t.Context(), one.ID)
	if err != nil || got.State != task.Pending || !strings.Contains(string(got.Inputs), `{"by":"notice:oncall","data":{"when":"now"}}`) {
		t.Errorf("the task is %s with %s, %v", got.State, got.Inputs, err)
	}
	before = last()
	for _, path := range []string{link, strings.Replace(link, "approve", "reject", 1)} {
		p.press(303, path, "texts[when]", "later")
		if page, _ := p.get(200, path); !strings.Contains(page, "<b>It was approved</b>") || !strings.Contains(page, "notice:oncall") || strings.Contains(page, `action="./`) {
			t.Errorf("a second click is told %s", page)
		}
	}
	if last() != before {
		t.Error("a second click has done something")
	}
	two := waits()
	p.press(303, strings.Replace(p.told(two, now, "approve", "reject"), "approve", "reject", 1), "reason", "no")
	if got, err := p.client.Task(t.Context(), two.ID); err != nil || got.Reason != value.Rejected || !strings.Contains(got.Message, "notice:oncall: no") {
		t.Errorf("who rejects it is %+v, %v", got.Message, err)
	}
	late := p.told(waits(), now.Add(-8*24*time.Hour), "approve")
	before = last()
	p.press(303, late, "texts[when]", "now")
	if page, _ := p.get(200, late); !strings.Contains(page, "This link has ended") || last() != before {
		t.Errorf("one that is too old says %s", page)
	}
}

// What a person answered once, by a form or a link, answers no later question of the same function.
func TestAnswersAreOfTheirQuestion(t *testing.T) {
	t.Parallel()
	p := open(t)
	id, head := p.submit(birth.Submission{Spec: &job.Spec{Handler: "asks"}}), uint64(0)
	of := "/tasks/" + string(id)
	asks := func(n int, name string) task.Task {
		epoch := p.attempt(id, head, task.AttemptStarted{Attempt: n, Node: "w1"})
		head = p.attempt(id, epoch, task.AttemptParked{Attempt: n, Epoch: epoch, Park: task.Park{Step: name, Kind: task.StepAwait}})
		p.seen()
		is, err := p.client.Task(t.Context(), id)
		if err != nil || is.Signal().Called() != name {
			t.Fatalf("it waits for %s, %v", is.Signal().Called(), err)
		}
		return is
	}
	link := p.told(asks(1, "first"), p.client.Now(), "approve", "reject")
	if page, _ := p.get(200, of); strings.Count(page, `type="hidden" name="name" value="first"`) < 2 {
		t.Errorf("its forms do not say what they are about: %s", page)
	}
	approve := []string{"id", string(id), "name", "first", "data", "1", "back", of}
	p.press(303, "/do/task.signal", approve...)
	is, err := p.client.Task(t.Context(), id)
	if err != nil || is.State != task.Pending {
		t.Fatalf("it is %s, %v", is.State, err)
	}
	head = is.Head
	asks(2, "second")
	for _, verb := range []string{"/do/task.signal", "/do/task.reject"} {
		form := approve
		if verb == "/do/task.reject" {
			form = slices.Delete(slices.Clone(approve), 4, 6)
		}
		if page, _ := p.press(409, verb, form...); !strings.Contains(page, "second") {
			t.Errorf("%s once more is told %s", verb, page)
		}
	}
	p.press(303, link, "data", "1")
	if page, _ := p.get(200, link); !strings.Contains(page, "<b>It was approved</b>") {
		t.Errorf("the link says %s", page)
	}
	if is, err = p.client.Task(t.Context(), id); err != nil || is.Head != head || !is.AwaitsSignal() {
		t.Errorf("it is %s after #%d, want #%d, %v", is.State, is.Head, head, err)
	}
	p.press(303, "/do/task.signal", "id", string(id), "name", "second", "back", of)
}

// A link that retries does so in one life of its task, however many press it at once, at whichever server.
func TestLinksRetryOnce(t *testing.T) {
	t.Parallel()
	p := open(t)
	for _, unique := range []*job.Unique{nil, {Key: "k"}} {
		of := command("false")
		of.Unique = unique
		first := p.fails(p.submit(of), 0)
		link := p.told(first, p.client.Now(), "retry")
		other := New(p.server) // as another server has it
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, link, nil)
				w := httptest.NewRecorder()
				if i%2 == 0 {
					p.ServeHTTP(w, r)
				} else {
					other.Serve(w, r, func() (httpapi.Caller, error) { return httpapi.Caller{}, answers.ErrWho })
				}
				if w.Code != 303 {
					t.Errorf("it is answered with %d: %s", w.Code, w.Body)
				}
			})
		}
		all.Wait()
		got, err := p.client.Task(t.Context(), first.ID)
		if err != nil || got.State != task.Pending || got.Life == 0 {
			t.Fatalf("the task is %s in life %d, %v", got.State, got.Life, err)
		}
		again := p.fails(first.ID, got.Head)
		p.press(303, link)
		if page, _ := p.get(200, link); !strings.Contains(page, "<b>It was retried</b>") {
			t.Errorf("after the next failure it says %s", page)
		}
		if got, err := p.client.Task(t.Context(), first.ID); err != nil || got.Seq != again.Seq {
			t.Errorf("an old link has done something: %s, %v", got.State, err)
		}
		p.press(303, p.told(again, p.client.Now(), "retry"))
		if got, err := p.client.Task(t.Context(), first.ID); err != nil || got.Life <= again.Life {
			t.Errorf("the link of the next life does nothing: %s, %v", got.State, err)
		}
	}
}

// Whoever is asked for an approval by name has its buttons in any role, and whoever is not has none.
func TestAskedByName(t *testing.T) {
	t.Parallel()
	p := open(t)
	for _, role := range []rights.Role{rights.Viewer, rights.Submitter} {
		for who, may := range map[string]bool{"ada": true, "a*": true, "bob": false, "operator": false} {
			p.as(rights.Operator)
			id := p.submit(birth.Submission{Spec: &job.Spec{Run: &job.Run{Argv: []string{"date"}}, Signal: &job.Signal{Who: []string{who}}}})
			p.as(role)
			page, _ := p.get(200, "/tasks/"+string(id))
			if strings.Contains(page, "do/task.signal") != may || strings.Contains(page, "do/task.reject") != may || strings.Contains(page, "do/task.cancel") {
				t.Errorf("a %s has other buttons than it may press of an approval by %s", role, who)
			}
			p.press(map[bool]int{true: 303, false: 403}[may], "/do/task.signal", "id", string(id), "back", "/tasks/"+string(id))
			p.press(403, "/do/task.cancel", "id", string(id))
			if got, err := p.client.Task(t.Context(), id); err != nil || (got.State == task.Pending) != may || may && !strings.Contains(string(got.Inputs), `"by":"ada"`) {
				t.Errorf("asked for is %s, and a %s leaves it %s with %s: %v", who, role, got.State, got.Inputs, err)
			}
		}
	}
}
