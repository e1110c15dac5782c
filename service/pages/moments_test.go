package pages

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"millrace/events/jet/names"
	"millrace/task/job"
)

// The past has no buttons, and is as it was.
func TestThen(t *testing.T) {
	t.Parallel()
	p := open(t)
	id := p.submit(command("date"))
	birth := p.server.Desk.Reached()
	if _, err := p.client.Cancel(t.Context(), id, "no more"); err != nil {
		t.Fatal(err)
	}
	p.seen()
	of := "/tasks/" + string(id)
	now, _ := p.get(200, of)
	then, _ := p.get(200, fmt.Sprintf("%s?at=%d", of, birth))
	if !strings.Contains(now, `action="../do/task.retry?id=`+string(id)+`"`) || !strings.Contains(now, "no more") {
		t.Error("a cancelled task cannot be retried, or does not say why it was cancelled")
	}
	if strings.Contains(then, `method="post"`) || strings.Contains(then, "no more") || !strings.Contains(then, "s-pending") {
		t.Error("the past has buttons, or is not as it was")
	}
	for _, path := range []string{"/tasks", "/"} {
		list, _ := p.get(200, fmt.Sprintf("%s?at=%d", path, birth))
		if !strings.Contains(list, "s-pending") || strings.Contains(list, "s-cancelled") || strings.Contains(list, `class="wrong"`) {
			t.Errorf("%s is not as it was: %s", path, list)
		}
	}
	if end, _ := p.get(200, fmt.Sprintf("%s?at=%d", of, p.server.Desk.Reached())); !strings.Contains(end, "no more") || strings.Contains(end, `method="post"`) {
		t.Error("the past up to the end is not as the present")
	}
}

// The switch in the head leads from the past to the present, without what pins the page, and a slider
// over the whole log stands where the page is.
func TestSwitch(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.submit(command("date"))
	birth := p.server.Desk.Reached()
	p.submit(command("date"))
	last := p.server.Desk.Reached()
	for path, want := range map[string]struct {
		value   uint64
		current string // of the link to the present
		live    string
	}{
		"/tasks":                               {last, "true", "./tasks?"},
		"/tasks?q=is%3Aroot&paused=1":          {last, "true", "./tasks?q=is%3Aroot"},
		fmt.Sprintf("/tasks?at=%d", birth):     {birth, "", "./tasks?"},
		fmt.Sprintf("/tasks?at=%d&q=a", birth): {birth, "", "./tasks?q=a"},
	} {
		page, _ := p.get(200, path)
		found := 0
		for _, e := range elements(t, page) {
			switch e.attr["id"] {
			case "slider":
				found++
				begin, end, at := millis(t, e.attr["min"]), millis(t, e.attr["max"]), millis(t, e.attr["value"])
				if e.attr["data-last"] != fmt.Sprint(last) || begin > at || at > end || (at == end) != (want.value == last) || end-begin > patience.Milliseconds() {
					t.Errorf("the slider of %s is %v, want %d of %d", path, e.attr, want.value, last)
				}
			case "live":
				found++
				if e.attr["href"] != want.live || e.attr["aria-current"] != want.current {
					t.Errorf("the switch of %s is %v, want %+v", path, e.attr, want)
				}
			case "pause":
				found++
			}
		}
		if found != 3 {
			t.Errorf("%s has %d of slider, pause and live", path, found)
		}
	}
}

func millis(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The overview says who has changed what, and how.
func TestChanged(t *testing.T) {
	t.Parallel()
	p := open(t)
	if page, _ := p.get(200, "/"); !strings.Contains(page, "No definition, queue, limit or node has been changed") {
		t.Error("it is not said that nothing was changed")
	}
	p.job("backup", "pg_dump", "shop")
	first := p.server.Desk.Reached()
	p.job("backup", "pg_dump", "--all")
	if _, err := p.client.PauseQueue(t.Context(), "low", 0, hostile[0]); err != nil {
		t.Fatal(err)
	}
	p.seen()
	for range 2 { // the second time it is known
		page, _ := p.get(200, "/")
		for _, want := range []string{"Latest changes", "jobs/backup", "queue low", "<code>run.argv</code>", "&#34;--all&#34;", "queue.paused", fmt.Sprintf("events/%d", first)} {
			if !strings.Contains(page, want) {
				t.Errorf("the overview does not say %q", want)
			}
		}
		p.harmless("the overview", page)
	}
	if page, _ := p.get(200, fmt.Sprintf("/?at=%d", first)); strings.Contains(page, "--all") || !strings.Contains(page, "jobs/backup") {
		t.Error("the past is not as it was")
	}
}

// A page of the past has the NATS server look through the log for nothing: it reads single messages,
// those that the read model names. With a million tasks each such look costs tens of milliseconds.
func TestPastReadsSingleMessages(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.node("w1", ready("w1")...)
	p.job("hello", "echo", "hello")
	p.schedule("nightly", job.Schedule{Cron: "0 3 * * *"}, "true")
	if _, err := p.client.PauseQueue(t.Context(), "default", 0, "a reason"); err != nil {
		t.Fatal(err)
	}
	if err := p.client.SubmitMany(t.Context(), command("true"), 300, nil); err != nil { // more than are read one by one
		t.Fatal(err)
	}
	p.seen()
	then := fmt.Sprint(p.server.Desk.Reached())
	p.node("w2", ready("w2")...)
	p.job("hello", "echo", "hello again")

	var asked []*nats.Subscription
	for _, api := range []string{names.APIGet, names.APIDirect} {
		sub, err := p.store.NC.SubscribeSync(api + names.LogStream)
		if err != nil {
			t.Fatal(err)
		}
		asked = append(asked, sub)
	}
	if err := p.store.NC.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"/", "/nodes", "/nodes/w1", "/queues", "/jobs", "/jobs/hello", "/schedules", "/calendars", "/tasks", "/tasks?q=job:hello", "/dead", "/events", "/events?until=0s", "/events?since=1h",
		"/events?node=w1", "/diff?from=5",
	} {
		path += map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")] + "at=" + then
		page, _ := p.get(200, path)
		p.harmless(path, page)
		if strings.HasPrefix(path, "/nodes") && (!strings.Contains(page, "w1") || strings.Contains(page, "w2")) {
			t.Errorf("%s does not have the node of then: %s", path, page)
		}
		if err := p.store.NC.Flush(); err != nil {
			t.Fatal(err)
		}
		read := 0
		for _, sub := range asked {
			for {
				m, err := sub.NextMsg(0)
				if err != nil {
					break
				}
				if read++; strings.Contains(string(m.Data), `"batch"`) || strings.Contains(string(m.Data), `"next_by_subj"`) && !strings.Contains(string(m.Data), `"start_time"`) {
					t.Errorf("%s has the server look for %s", path, m.Data)
				}
			}
		}
		if read == 0 {
			t.Errorf("%s has read nothing of the log", path)
		}
	}
}
