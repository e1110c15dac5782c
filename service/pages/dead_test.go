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
	for _, want := range []string{ids[0].Short(), "expired", "an operator: see why", `form="many"`, "{&#34;&lt;b&gt;", `do/dead.dismiss`} {
		if !strings.Contains(page, want) {
			t.Errorf("the list does not say %q", want)
		}
	}
	if page, _ = p.get(200, "/dead?q=%22echo+2%22"); strings.Contains(page, "t-"+string(ids[0])) || !strings.Contains(page, "t-"+string(ids[2])) {
		t.Error("a query does not choose")
	}
	was := p.server.Desk.Reached()
	page, _ = p.press(200, "/dead?q=%22echo+2%22", "do", "retry", "all", "1")
	if !strings.Contains(page, "<b>Retry 1 dead letter?</b>") || !strings.Contains(page, `name="task" value="`+string(ids[2])+`"`) {
		t.Errorf("it is not said what would be done: %s", page)
	}
	page, _ = p.press(200, "/dead", "do", "drop", "all", "1")
	if !strings.Contains(page, "<b>Drop 5 dead letters?</b>") || !strings.Contains(page, "<li>5 expired</li>") {
		t.Errorf("it is not said how many would be dropped: %s", page)
	}
	p.harmless("what would be done", page)
	for _, odd := range [][]string{{"do", "burn", "all", "1"}, {"do", "drop", "task", "x"}} {
		if page, _ := p.press(200, "/dead", odd...); !strings.Contains(page, `class="wrong"`) || strings.Contains(page, "dead/do") {
			t.Errorf("%v is not refused: %s", odd, page)
		}
	}
	if page, _ := p.press(200, "/dead", "do", "drop"); !strings.Contains(page, "No dead letter is selected") {
		t.Error("nothing chosen is not said to be nothing")
	}
	if p.server.Desk.Reached() != was {
		t.Error("who only asked what would be done has done something")
	}
	page, _ = p.press(200, "/dead/do", "do", "retry", "task", string(ids[2]), "reason", "again")
	if k, err := p.client.Task(t.Context(), ids[2]); err != nil || k.State != task.Pending || !strings.Contains(page, "<b>1</b> done") {
		t.Errorf("it is %v, %v: %s", k.State, err, page)
	}
	page, _ = p.press(200, "/dead/do", "do", "drop", "task", string(ids[2]))
	if !strings.Contains(page, "<b>1</b> refused") || !strings.Contains(page, "no dead letter") {
		t.Errorf("what is none can be dropped: %s", page)
	}
	if page, _ = p.press(200, "/dead/do", "do", "drop", "task", string(ids[0])); !strings.Contains(page, "<b>1</b> done") {
		t.Errorf("it was not dropped: %s", page)
	}
	if page, _ = p.get(200, "/dead"); strings.Contains(page, "t-"+string(ids[0])) || !strings.Contains(page, "t-"+string(ids[1])) {
		t.Error("what was dropped is in the list, or what was not is missing")
	}
	if _, h := p.get(303, "/dead/do"); h.Get("Location") != "../dead" {
		t.Errorf("who only looks is led to %s", h.Get("Location"))
	}
	if page, _ = p.get(200, "/dead?at="+strconv.FormatUint(was, 10)); !strings.Contains(page, "t-"+string(ids[0])) || strings.Contains(page, `method="post"`) {
		t.Error("the past is not as it was")
	}
	p.press(400, "/dead/do", "do", "drop")
	p.as(rights.Viewer)
	if page, _ = p.get(200, "/dead"); strings.Contains(page, `method="post"`) || strings.Contains(page, "checkbox") && strings.Contains(page, `form="many"`) {
		t.Error("a viewer has buttons")
	}
	p.press(403, "/dead/do", "do", "drop", "task", string(ids[1]))
	p.as(rights.Submitter)
	p.get(403, "/dead")
}
