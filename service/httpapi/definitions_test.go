package httpapi

import (
	"slices"
	"strings"
	"testing"

	"millrace/events/jet/definitions"
	"millrace/projections/view"
	"millrace/service/answers"
	"millrace/service/client"
	"millrace/task/queue"
)

// Definitions come and go.
func TestDefinitions(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	var done struct {
		Revision uint64
		Changed  bool
	}
	for _, changed := range []bool{true, false} {
		s.want(200, "PUT", "/api/v1/jobs/hello", `{"definition":{"run":{"argv":["date"]}}}`, &done)
		if done.Revision != 1 || done.Changed != changed {
			t.Errorf("applied: %+v", done)
		}
	}
	var job definitions.StoredJob
	s.want(200, "GET", "/api/v1/jobs/hello?revision=1", "", &job)
	if job.Name != "hello" || job.Revision != 1 {
		t.Errorf("the job is %+v", job)
	}
	s.refused(400, "bad-request", "PUT", "/api/v1/jobs/hello", `{"definition":{"name":"other","run":{"argv":["date"]}}}`)
	s.refused(400, "bad-request", "PUT", "/api/v1/jobs/hello", `{"definition":{}}`)
	s.refused(400, "bad-request", "PUT", "/api/v1/jobs/he*llo", `{"definition":{"run":{"argv":["date"]}}}`)
	var receipt client.Receipt
	s.want(200, "POST", "/api/v1/tasks", `{"job":"hello"}`, &receipt)

	s.want(200, "PUT", "/api/v1/schedules/nightly", `{"definition":{"schedule":{"cron":"0 3 * * *"},"task":{"job":"hello"}}}`, nil)
	s.want(200, "POST", "/api/v1/schedules/nightly/pause", `{"reason":"a"}`, nil)
	s.refused(400, "bad-request", "PUT", "/api/v1/schedules/nightly", `{"definition":{"schedule":{"cron":"never"},"task":{"job":"hello"}}}`)
	s.want(200, "PUT", "/api/v1/calendars/office", `{"definition":{"rules":[{"open":"mon-fri"}],"otherwise":"closed"}}`, nil)
	s.want(200, "GET", "/api/v1/calendars/office", "", nil)
	s.refused(400, "bad-request", "PUT", "/api/v1/calendars/office", `{"definition":{"rules":[{"open":"someday"}]}}`)
	for _, at := range []string{"/api/v1/schedules/nightly", "/api/v1/calendars/office", "/api/v1/jobs/hello"} {
		s.want(200, "DELETE", at, "", nil)
		if got := s.send("GET", at, ""); got.status != 404 {
			t.Errorf("%s is still there: %s", at, got.body)
		}
	}
}

// Of two concurrent editors, the second one learns what the first has changed.
func TestRevisions(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	const job, schedule, calendar, crawl = "/api/v1/jobs/hello", "/api/v1/schedules/nightly", "/api/v1/calendars/office", "/api/v1/queues/crawl/limit"
	s.want(200, "PUT", job, `{"definition":{"run":{"argv":["date"]}}}`, nil, "If-None-Match", "*")
	s.refused(412, "overtaken", "PUT", job, `{"definition":{"run":{"argv":["true"]}}}`, "If-None-Match", "*")
	seen := s.want(200, "GET", job, "", nil).header.Get("ETag")
	s.want(200, "PUT", job, `{"definition":{"run":{"argv":["date","-u"]}}}`, nil, "If-Match", seen)
	var p answers.Problem
	s.want(412, "PUT", job, `{"definition":{"run":{"argv":["date","-I"]}}}`, &p, "If-Match", seen)
	if p.Type != "urn:millrace:overtaken" || p.Revision != 2 || len(p.Changes) != 1 || p.Changes[0].Field != "run.argv" || string(p.Changes[0].Is) != `["date","-u"]` ||
		!strings.Contains(p.Detail, "run.argv") || !strings.Contains(p.Detail, "revision 2 by ada") {
		t.Errorf("it is refused with %+v", p)
	}
	s.want(200, "PUT", job, `{"definition":{"run":{"argv":["date","-u"]}}}`, nil, "If-Match", seen) // as after an answer that was lost
	s.want(200, "PUT", job, `{"definition":{"run":{"argv":["date","-I"]}},"if_revision":2}`, nil)
	s.want(200, "DELETE", job, "", nil)
	s.refused(412, "overtaken", "PUT", job, `{"definition":{"run":{"argv":["date"]}}}`, "If-Match", `"3"`)
	s.want(200, "PUT", job, `{"definition":{"run":{"argv":["date"]}}}`, nil, "If-None-Match", "*")

	s.want(200, "PUT", schedule, `{"definition":{"schedule":{"cron":"30 2 * * *"},"task":{"job":"hello"}}}`, nil)
	seen = s.want(200, "GET", schedule, "", nil).header.Get("ETag")
	s.want(200, "POST", schedule+"/pause", `{}`, nil)
	s.want(412, "PUT", schedule, `{"definition":{"schedule":{"cron":"30 3 * * *"},"task":{"job":"hello"}}}`, &p, "If-Match", seen)
	if p.Revision != 2 || !strings.Contains(p.Detail, "paused") {
		t.Errorf("a schedule is refused with %+v", p)
	}
	s.want(200, "PUT", calendar, `{"definition":{"rules":[{"open":"mon-fri 08:00-18:00"},{"closed":"sat,sun"}]}}`, nil)
	s.want(200, "PUT", calendar, `{"definition":{"rules":[{"open":"mon-fri 08:00-19:00"},{"closed":"sat,sun"}]}}`, nil, "If-Match", `"1"`)
	s.refused(412, "overtaken", "PUT", calendar, `{"definition":{"rules":[{"open":"mon-fri 08:00-20:00"},{"closed":"sat,sun"}]}}`, "If-Match", `"1"`)

	var q queue.Queue
	s.want(200, "POST", crawl, `{"running":4}`, &q, "If-None-Match", "*")
	s.want(200, "POST", crawl, `{"running":5}`, nil)
	s.want(412, "POST", crawl, `{"running":6}`, &p, "If-Match", itoa(q.Head))
	if len(p.Changes) == 0 || !strings.Contains(p.Detail, "limit") {
		t.Errorf("a queue is refused with %+v", p)
	}

	s.refused(400, "bad-request", "POST", "/api/v1/queues/crawl/pause", `{}`, "If-Match", `"1"`)
	for _, tag := range []string{"*", `"x"`, `W/"0f"`, `"1","2"`} {
		s.refused(400, "bad-request", "PUT", job, `{"definition":{"run":{"argv":["date"]}}}`, "If-Match", tag)
	}
	s.refused(400, "bad-request", "PUT", job, `{"definition":{"run":{"argv":["date"]}},"if_revision":1}`, "If-Match", `"1"`)
	s.refused(400, "bad-request", "DELETE", job, "", "If-Match", `"1"`)
}

// The changes of a definition are listed, and it is compared with another one or with its past.
func TestChangesOfDefinitions(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	for _, of := range []struct{ at, first, second string }{ // a schedule needs the job
		{"/api/v1/jobs/a", `{"run":{"argv":["date"]}}`, `{"run":{"argv":["true"]}}`},
		{"/api/v1/schedules/a", `{"schedule":{"cron":"30 2 * * *"},"task":{"job":"a"}}`, `{"schedule":{"cron":"30 3 * * *"},"task":{"job":"a"}}`},
		{"/api/v1/calendars/a", `{"rules":[{"open":"mon-fri"}],"otherwise":"closed"}`, `{"rules":[{"open":"sat"}],"otherwise":"closed"}`},
	} {
		at, definitions := of.at, []string{of.first, of.second}
		before := s.last()
		for _, d := range definitions {
			s.want(200, "PUT", at, `{"definition":`+d+`}`, nil)
		}
		s.want(200, "PUT", strings.TrimSuffix(at, "a")+"b", `{"definition":`+definitions[1]+`}`, nil)
		var page struct{ Facts []client.ShownFact }
		s.want(200, "GET", at+"/history", "", &page)
		if len(page.Facts) != 2 || page.Facts[0].Seq <= before {
			t.Fatalf("the history of %s has %d facts, want 2 after %d: %+v", at, len(page.Facts), before, page)
		}
		var diff struct{ Changes []view.Change }
		s.want(200, "GET", at+"/diff?at="+itoa(page.Facts[0].Seq), "", &diff)
		if len(diff.Changes) == 0 {
			t.Errorf("%s has not changed", at)
		}
		s.want(200, "GET", at+"/diff?with=b", "", &diff)
		if !slices.ContainsFunc(diff.Changes, func(c view.Change) bool { return c.Field == "name" }) {
			t.Errorf("%s is as another one: %+v", at, diff)
		}
		for path, status := range map[string]int{at + "/diff": 400, at + "/diff?with=nobody": 404, at + "/diff?at=x": 400, strings.TrimSuffix(at, "a") + "nobody/history": 404} {
			s.want(status, "GET", path, "", nil)
		}
	}
}

// One definition of a past moment is the one that held then.
func TestDefinitionsOfThen(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	now := func() string {
		end, err := s.store.Last(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return itoa(end)
	}
	s.want(200, "POST", "/api/v1/tasks", `{"spec":{"run":{"argv":["true"]}}}`, nil)
	start := now()
	for noun, of := range map[string]struct{ was, is string }{
		"jobs":      {`{"run":{"argv":["true"]}}`, `{"run":{"argv":["date"]}}`},
		"calendars": {`{"rules":[{"closed":"sun"}]}`, `{"rules":[{"closed":"sat"}]}`},
		"schedules": {`{"schedule":{"every":"1h"},"task":{"spec":{"run":{"argv":["true"]}}}}`, `{"schedule":{"every":"2h"},"task":{"spec":{"run":{"argv":["true"]}}}}`},
	} {
		at := "/api/v1/" + noun + "/odd"
		s.want(200, "PUT", at, `{"definition":`+of.was+`}`, nil)
		then := now()
		s.want(200, "PUT", at, `{"definition":`+of.is+`}`, nil)
		var was, is struct {
			Revision uint64
		}
		s.want(200, "GET", at+"?at="+then, "", &was)
		s.want(200, "GET", at+"?at=end", "", &is)
		if was.Revision != 1 || is.Revision != 2 {
			t.Errorf("%s: at %s the revision was %d, want 1; it is %d, want 2", noun, then, was.Revision, is.Revision)
		}
		s.refused(404, "no-"+strings.TrimSuffix(noun, "s"), "GET", at+"?at="+start, "")
		s.want(200, "DELETE", at, `{}`, nil)
		var page map[string][]struct{ Name string }
		if s.want(200, "GET", "/api/v1/"+noun+"?at="+then, "", &page); len(page[noun]) != 1 || page[noun][0].Name != "odd" {
			t.Errorf("%s at %s are %+v", noun, then, page)
		}
		if noun != "schedules" {
			s.refused(400, "bad-request", "GET", at+"?revision=1&at="+then, "")
		}
	}
	s.refused(404, "no-node", "GET", "/api/v1/nodes/odd?at="+start, "")
}
