package pages

import (
	"encoding/json"
	"fmt"
	"html"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"millrace/events"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/value"
)

// A page of the list counts what a row holds: the next page begins behind it, in the past as well. The row leads to
// its runs, and to those that have failed; files have a row for each.
func TestRunsInOneRow(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.node("w1", ready("s1")...)
	p.schedule("pulse", job.Schedule{Every: value.Duration(time.Minute)}, "date")
	var failed []task.ID
	for i := range 60 {
		made, _, err := p.client.RunTick(t.Context(), "pulse", time.Date(2026, 3, 4, 3, i, 0, 0, time.UTC))
		if err != nil {
			t.Fatal(err)
		}
		if i < 5 {
			failed = append(failed, made.ID)
		}
	}
	other := command("date")
	other.Params = map[string]json.RawMessage{"customer": json.RawMessage(`"acme"`), "more": json.RawMessage(`"` + strings.Repeat("x", 99) + `"`), "pages": json.RawMessage(`7`), "text": json.RawMessage(strconv.Quote(strings.Repeat("long ", 100)))}
	p.submit(other)
	for _, id := range failed[:4] {
		p.die(id, "gone")
	}
	is, err := p.client.Task(t.Context(), failed[4])
	if err != nil {
		t.Fatal(err)
	}
	p.fails(is.ID, is.Head)
	next := regexp.MustCompile(`href="\./tasks\?([^"]*)" rel="next"`)
	for at, cells := range map[string]int{"": 11, fmt.Sprintf("at=%d", p.server.Desk.Reached()): 9} {
		page, _ := p.get(200, "/tasks?"+at)
		p.says(page, ">49 runs of schedule pulse<", "49 pending", "03:11:00</time> to ", "03:59:00", `customer=acme more=xxx`, ">parameters</th>", fmt.Sprintf(`colspan="%d"`, cells))
		if cell := html.UnescapeString(part(t, page, `"clamp">customer`, "</span>")); utf8.RuneCountInString("customer"+cell) != shownParams {
			t.Errorf("long parameters are shown as %s", cell)
		}
		if n := strings.Count(page, "<tr id="); n != 2 || strings.Contains(page, "failed") {
			t.Errorf("the page has %d rows, want 2 without a failure: %s", n, page)
		}
		page, _ = p.get(200, "/tasks?"+html.UnescapeString(next.FindStringSubmatch(page)[1]))
		p.says(page, ">11 runs of schedule pulse<", "6 pending", "5 failed", ">exit code 7</a>", `href="./tasks/`+string(failed[4]), "03:00:00", "03:10:00")
		if strings.Contains(page, ">parameters</th>") {
			t.Error("parameters are shown where no task has some")
		}
		for text, n := range map[string]int{"11 runs of": 11, `<span class="state s-error"><span aria-hidden="true">✗</span> 5 failed`: 5, "each run in": 11} {
			to := regexp.MustCompile(`href="\.([^"]*)"[^>]*>` + text).FindStringSubmatch(page)
			if runs, _ := p.get(200, html.UnescapeString(to[1])); strings.Count(runs, `<tr id="t-`) != n || strings.Contains(runs, `<tr id="f-`) {
				t.Errorf("%s shows other runs than %d: %s", to[1], n, runs)
			}
		}
	}
	if text, _ := p.get(200, "/tasks/export?as=jsonl"); strings.Count(text, "\n") != 61 {
		t.Errorf("the file is %s", text)
	}
	if page, _ := p.get(200, "/dead"); strings.Count(page, `<tr id="t-`) != 4 {
		t.Errorf("dead letters are in one row: %s", page)
	}
	p.job("report", "true")
	var last task.ID
	for range 10 {
		last = p.submit(birth.Submission{Job: "report"})
	}
	if page, _ := p.get(200, "/tasks?q=job%3Areport"); strings.Count(page, `<tr id="t-`) != 10 || strings.Contains(page, ">parameters</th>") {
		t.Errorf("the runs of a job are not shown singly, or with a column of nothing: %s", page)
	}
	p.attempt(task.ID(events.NewID(p.client.Now())), 0, task.Submitted{Work: task.Work{Spec: command("date").Spec, Parent: last, Step: "a", Route: "default.5"}})
	p.seen()
	page, _ := p.get(200, "/tasks")
	p.says(page, ">10 runs of job report<", "1 step<")
	page, _ = p.get(200, "/tasks?fold=none")
	p.says(page, `<span class="in-1" aria-hidden="true">└</span> <a`)
}
