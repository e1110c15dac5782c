package pages

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/events/jet/rights"
	"millrace/task"
	"millrace/task/node"
)

// The query above the list chooses facts; for the facts of a task, the queue, job and schedule of
// the task match as well.
func TestFactChoice(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	const id = task.ID("01JNAT00000000000000000001")
	of := func(*events.Record) belongs { return belongs{"images", "thumbs", "nightly"} }
	record := func(f events.Fact) events.Record {
		f.Type = events.TypeOf(f.Event)
		return events.Record{Seq: 7, Stored: now, Fact: f, Kind: events.KindChain}
	}
	started := record(events.Fact{Task: id, Actor: "n1", Event: task.AttemptStarted{Node: "n1"}})
	online := record(events.Fact{Node: "n2", Actor: "n2", Event: node.WentOnline{}})
	applied := record(events.Fact{Def: task.Named(task.DefJob, "thumbs"), Actor: "ada", Event: task.DefinitionApplied{}})
	for name, c := range map[string]struct {
		asked                    factsAsked
		started, online, applied bool
	}{
		"all":            {factsAsked{}, true, true, true},
		"a kind":         {factsAsked{Type: "attempt"}, true, false, false},
		"two kinds":      {factsAsked{Type: "attempt.started, node"}, true, true, false},
		"a task":         {factsAsked{Task: string(id)}, true, false, false},
		"a node":         {factsAsked{Node: "n2"}, false, true, false},
		"by a node":      {factsAsked{Node: "n1"}, true, false, false},
		"a queue":        {factsAsked{Queue: "images"}, true, false, false},
		"another queue":  {factsAsked{Queue: "other"}, false, false, false},
		"a job":          {factsAsked{Job: "thumbs"}, true, false, true},
		"a schedule":     {factsAsked{Schedule: "nightly"}, true, false, false},
		"by somebody":    {factsAsked{Actor: "ada"}, false, false, true},
		"since":          {factsAsked{Since: "1h"}, true, true, true},
		"since later":    {factsAsked{Since: "2026-03-01T12:00:01Z"}, false, false, false},
		"until earlier":  {factsAsked{Until: "1h"}, false, false, false},
		"job and type":   {factsAsked{Job: "thumbs", Type: "definition"}, false, false, true},
		"queue and node": {factsAsked{Queue: "images", Node: "n2"}, false, false, false},
	} {
		choice, err := c.asked.choice(now)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, is := range []struct {
			r    events.Record
			want bool
		}{{started, c.started}, {online, c.online}, {applied, c.applied}} {
			if choice.wants(&is.r, of) != is.want {
				t.Errorf("%s: %s: want %v", name, is.r.Fact.Type, is.want)
			}
		}
		if choice.Chooses() == (name == "all") {
			t.Errorf("%s: it is not known whether it chooses", name)
		}
	}
	for _, wrong := range []factsAsked{{Type: "tsk"}, {Task: "x"}, {Node: "a b"}, {Queue: "<"}, {Since: "never"}, {Until: "12"}} {
		if _, err := wrong.choice(now); err == nil {
			t.Errorf("%+v is taken", wrong)
		}
	}
}

// The page lists the log from its end, page by page, and each fact has a page with its causes and
// its raw text.
func TestEvents(t *testing.T) {
	t.Parallel()
	p := open(t)
	if page, _ := p.get(200, "/events"); !strings.Contains(page, "<h1>Events") {
		t.Error("there is no page")
	}
	first := p.submit(command("date"))
	for range shownEvents + 10 {
		p.submit(command("true"))
	}
	if _, err := p.client.Cancel(t.Context(), first, hostile[0]); err != nil {
		t.Fatal(err)
	}
	p.seen()
	page, _ := p.get(200, "/events")
	end := p.server.Desk.Reached()
	if n := strings.Count(page, "<tr id="); n != shownEvents || !strings.Contains(page, fmt.Sprintf(`id="f-%d"`, end)) {
		t.Errorf("there are %d facts, or not the last one", n)
	}
	p.harmless("the list", page)
	at := slices.IndexFunc(elements(t, page), func(e element) bool { return e.attr["rel"] == "next" })
	if at < 0 {
		t.Fatal("no link leads to older facts")
	}
	older, _ := p.get(200, "/"+strings.TrimPrefix(elements(t, page)[at].attr["href"], "./"))
	if n := strings.Count(older, "<tr id="); n == 0 || n > 20 || strings.Contains(older, fmt.Sprintf(`id="f-%d"`, end)) || !strings.Contains(older, first.Short()) {
		t.Errorf("the older ones are %d, or not those before", n)
	}
	for path, want := range map[string]int{
		"/events?task=" + strings.ToLower(string(first)): 2, "/events?type=task.cancelled": 1, "/events?actor=nobody": 0, "/events?queue=default&type=task.cancelled": 1,
		"/events?type=task.cancelled&until=1h": 0, "/events?task=" + string(first) + "&at=" + fmt.Sprint(end-1): 1, "/events?job=none&before=50": 0,
	} {
		if page, _ := p.get(200, path); strings.Count(page, "<tr id=") != want {
			t.Errorf("%s has %d facts, want %d", path, strings.Count(page, "<tr id="), want)
		}
	}
	// However far back the few facts lie that are chosen, one page has them.
	if err := p.client.SubmitMany(t.Context(), command("true"), readEvents+1, nil); err != nil {
		t.Fatal(err)
	}
	p.seen()
	for path, want := range map[string]int{"/events?type=task.cancelled": 1, "/events?type=task.cancelled&queue=default": 1, "/events?type=task.cancelled&job=none": 0} {
		page, _ := p.get(200, path)
		if n := strings.Count(page, "<tr id="); n != want || strings.Contains(page, `rel="next"`) {
			t.Errorf("%s has %d facts, want %d, or leads to older ones", path, n, want)
		}
	}
	if page, _ := p.get(200, "/events?type=tsk"); !strings.Contains(page, `class="wrong"`) || !strings.Contains(page, "there is no type") {
		t.Error("a type that is none is not refused")
	}
	page, _ = p.get(200, fmt.Sprintf("/events/%d", end))
	for _, want := range []string{"What led to it", "submitted", "As it was written", `&#34;reason&#34;: &#34;`, fmt.Sprintf("at=%d", end), "before it: #"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page of a fact does not say %q: %s", want, page)
		}
	}
	p.harmless("the page of a fact", page)
	for path, status := range map[string]int{"/events/0": 400, "/events/x": 400, "/events/999999": 404, fmt.Sprintf("/events/%d?at=3", end): 404} {
		p.get(status, path)
	}
	p.as(rights.Submitter)
	p.get(403, "/events")
	p.get(403, "/events/1")
}
