package pages

import (
	"strconv"
	"strings"
	"testing"

	"millrace/events"
	"millrace/events/jet/rights"
	"millrace/task"
)

// die ends a task as its surroundings do.
func (p *place) die(id task.ID, because string) {
	p.Helper()
	rec := &events.Recorder{Log: p.store, Actor: "scheduler", Now: p.client.Now, NewID: events.NewID}
	t, err := rec.Load(p.Context(), id)
	if err == nil {
		_, _, err = rec.Do(p.Context(), t, task.Expire{Detail: because})
	}
	if err != nil {
		p.Fatal(err)
	}
	p.seen()
}

// Dead letters are listed with who must act; a query chooses some, the operator reviews them, and
// retries or drops them together.
func TestDead(t *testing.T) {
	t.Parallel()
	p := open(t)
	if page, _ := p.get(200, "/dead"); !strings.Contains(page, "There are no dead letters") || !strings.Contains(page, "Every message of the log can be read") {
		t.Error("an empty list does not say so")
	}
	var ids []task.ID
	for i, text := range hostile[:5] {
		ids = append(ids, p.submit(command("echo", strconv.Itoa(i))))
		p.die(ids[i], text)
	}
	if _, err := p.store.JS.Publish(t.Context(), "mr.task."+string(ids[0]), []byte(`{"<b>`)); err != nil {
		t.Fatal(err)
	}
	p.seen()
	page, _ := p.get(200, "/dead")
	p.harmless("the list", page)
	for _, want := range []string{ids[0].Short(), "expired", "an operator: see why", `form="selection"`, "{&#34;&lt;b&gt;", `do/dead.dismiss`} {
		if !strings.Contains(page, want) {
			t.Errorf("the list does not say %q", want)
		}
	}
	if page, _ = p.get(200, "/dead?q=%22echo+2%22"); strings.Contains(page, "t-"+string(ids[0])) || !strings.Contains(page, "t-"+string(ids[2])) {
		t.Error("a query does not choose")
	}
	was := p.server.Desk.Reached()
	page, _ = p.get(200, "/dead?q=%22echo+2%22")
	if !strings.Contains(page, `href="./bulk/retry?q=is%3Adead&#43;%22echo&#43;2%22"`) || !strings.Contains(page, `href="./bulk/dismiss?q=is%3Adead&#43;%22echo&#43;2%22"`) || !strings.Contains(page, `formaction="./bulk/dismiss"`) {
		t.Errorf("the chosen ones cannot be retried or dropped: %s", page)
	}
	page, _ = p.get(200, "/bulk/retry?q=is%3Adead+%22echo+2%22")
	if !strings.Contains(page, "This would affect <b>1</b> task") || !strings.Contains(page, ids[2].Short()) || strings.Contains(page, ids[0].Short()) {
		t.Errorf("it is not said what would be done: %s", page)
	}
	page, _ = p.get(200, "/bulk/dismiss?q=is%3Adead")
	if !strings.Contains(page, "This would affect <b>5</b> tasks") || !strings.Contains(page, "Drop 5 tasks") || !strings.Contains(page, "<b>expired</b>") {
		t.Errorf("it is not said how many would be dropped: %s", page)
	}
	p.harmless("what would be done", page)
	p.get(404, "/bulk/burn?q=is%3Adead")
	if page, _ := p.get(200, "/bulk/dismiss?task=x"); !strings.Contains(page, `class="wrong"`) || strings.Contains(page, `method="post"`) {
		t.Errorf("what is no task is not refused: %s", page)
	}
	if page, _ := p.get(200, "/bulk/dismiss?of=chosen&q=is%3Adead"); !strings.Contains(page, "No task is selected") {
		t.Error("nothing chosen is not said to be nothing")
	}
	if p.server.Desk.Reached() != was {
		t.Error("who only asked what would be done has done something")
	}
	page, _ = p.press(200, "/bulk/retry", "task", string(ids[2]), "count", "1", "reason", "again")
	if k, err := p.client.Task(t.Context(), ids[2]); err != nil || k.State != task.Pending || !strings.Contains(page, "1 task: done") {
		t.Errorf("it is %v, %v: %s", k.State, err, page)
	}
	if page, _ = p.get(200, "/bulk/dismiss?task="+string(ids[2])); !strings.Contains(page, "No task can be changed this way") {
		t.Errorf("what is none can be dropped: %s", page)
	}
	if page, _ = p.press(200, "/bulk/dismiss", "task", string(ids[0]), "count", "1"); !strings.Contains(page, "1 task: done") {
		t.Errorf("it was not dropped: %s", page)
	}
	if page, _ = p.get(200, "/dead"); strings.Contains(page, "t-"+string(ids[0])) || !strings.Contains(page, "t-"+string(ids[1])) {
		t.Error("what was dropped is in the list, or what was not is missing")
	}
	page, _ = p.press(200, "/bulk/dismiss", "task", string(ids[1]), "count", "1")
	undo := part(t, page, `action="../bulk/undismiss"`, "</form>")
	batch := part(t, undo, `value="batch:`, `"`)
	if page, _ = p.press(200, "/bulk/undismiss", "q", "batch:"+batch, "count", "1", "typed", "1"); !strings.Contains(page, "1 task: done") || strings.Contains(page, ">Undo<") {
		t.Errorf("it was not taken back: %s", page)
	}
	if page, _ = p.get(200, "/dead"); strings.Contains(page, "t-"+string(ids[0])) || !strings.Contains(page, "t-"+string(ids[1])) {
		t.Error("what was taken back is missing, or what was not is in the list")
	}
	if page, _ = p.get(200, "/dead?at="+strconv.FormatUint(was, 10)); !strings.Contains(page, "t-"+string(ids[0])) || strings.Contains(page, `method="post"`) {
		t.Error("the past is not as it was")
	}
	p.as(rights.Viewer)
	if page, _ = p.get(200, "/dead"); strings.Contains(page, `method="post"`) || strings.Contains(page, `type="checkbox" name="task"`) {
		t.Error("a viewer has buttons")
	}
	p.press(403, "/bulk/dismiss", "task", string(ids[1]), "count", "1")
	p.as(rights.Submitter)
	p.get(403, "/dead")
}
