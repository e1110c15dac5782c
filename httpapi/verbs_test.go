package httpapi

import (
	"testing"
	"time"

	"millrace/client"
	"millrace/jet"
	"millrace/task"
	"millrace/task/output"
	"millrace/view"
)

// Several submissions of unlike tasks are one request; nothing is submitted if one of them is wrong.
func TestBulk(t *testing.T) {
	s := open(t, nil)
	var got struct{ Receipts []client.Receipt }
	s.want(200, "POST", "/api/v1/bulk", `{"tasks":[{"spec":{"run":{"argv":["date"]}}},{"spec":{"handler":"mail"},"queue":"mails"},{"spec":{"run":{"argv":["date"]}},"id":"01ARZ3NDEKTSV4RRFFQ69G5FAV"}]}`, &got)
	if len(got.Receipts) != 3 || got.Receipts[2].ID != "01ARZ3NDEKTSV4RRFFQ69G5FAV" {
		t.Errorf("the receipts are %+v", got.Receipts)
	}
	end, err := s.store.Last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.refused(400, "bad-request", "POST", "/api/v1/bulk", `{"tasks":[{"spec":{"run":{"argv":["date"]}}},{"spec":{}}]}`)
	s.refused(404, "no-job", "POST", "/api/v1/bulk", `{"tasks":[{"spec":{"run":{"argv":["date"]}}},{"job":"nobody"}]}`)
	s.refused(400, "bad-request", "POST", "/api/v1/bulk", `{"tasks":[]}`)
	if now, err := s.store.Last(t.Context()); err != nil || now != end {
		t.Errorf("the log has gone on from %d to %d, %v", end, now, err)
	}
}

// Definitions come and go.
func TestDefinitions(t *testing.T) {
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
	var job jet.StoredJob
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

// Lists and counts tell what was, when they are asked about a moment.
func TestListsOfThen(t *testing.T) {
	s := open(t, nil)
	var first, second client.Receipt
	s.want(200, "POST", "/api/v1/tasks", `{"spec":{"run":{"argv":["true"]}}}`, &first)
	s.want(200, "POST", "/api/v1/tasks", `{"spec":{"run":{"argv":["date"]}},"queue":"night","priority":3}`, &second)
	s.want(200, "POST", "/api/v1/tasks/"+string(first.ID)+"/cancel", `{}`, nil)
	var page client.ListPage
	s.want(200, "GET", "/api/v1/tasks?counts=true&at="+itoa(first.Seq), "", &page)
	if len(page.Tasks) != 1 || page.Tasks[0].ID != first.ID || page.Tasks[0].State != task.Pending || page.Seq != first.Seq || page.Counts["pending"] != 1 {
		t.Errorf("%+v", page)
	}
	s.want(200, "GET", "/api/v1/tasks?limit=1&states=pending&at="+itoa(second.Seq), "", &page)
	if len(page.Tasks) != 1 || page.Tasks[0].ID != second.ID || page.Next == "" {
		t.Errorf("%+v", page)
	}
	var last client.ListPage
	s.want(200, "GET", "/api/v1/tasks?states=pending&at="+itoa(second.Seq)+"&cursor="+page.Next, "", &last)
	if len(last.Tasks) != 1 || last.Tasks[0].ID != first.ID || last.Next != "" {
		t.Errorf("%+v", last)
	}
	var queues client.QueuePage
	s.want(200, "GET", "/api/v1/queues?at="+itoa(first.Seq), "", &queues)
	if len(queues.Queues) != 1 || queues.Queues[0].States["pending"] != 1 || queues.Queues[0].Oldest.IsZero() || queues.Seq != first.Seq {
		t.Errorf("%+v", queues)
	}
	var nodes client.NodePage
	s.want(200, "GET", "/api/v1/nodes?at="+itoa(second.Seq), "", &nodes)
	var limits client.LimitPage
	s.want(200, "GET", "/api/v1/limits?at="+itoa(second.Seq), "", &limits)
	if len(nodes.Nodes) != 0 || nodes.Seq != second.Seq || limits.All != 0 || limits.Seq != second.Seq {
		t.Errorf("%+v, %+v", nodes, limits)
	}
	var jobs client.JobList
	var schedules client.ScheduleList
	s.want(200, "GET", "/api/v1/jobs?at="+itoa(second.Seq), "", &jobs)
	s.want(200, "GET", "/api/v1/schedules?at="+itoa(second.Seq), "", &schedules)
	if len(jobs.Jobs) != 0 || len(schedules.Schedules) != 0 {
		t.Errorf("%+v, %+v", jobs, schedules)
	}
	for _, refused := range []string{"tasks?text=date", "tasks?suspect=true", "queues?rates=true", "tasks?limit=2000", "tasks?cursor=x"} {
		s.refused(400, "bad-request", "GET", "/api/v1/"+refused+"&at="+itoa(second.Seq), "")
	}
	s.refused(400, "bad-request", "GET", "/api/v1/limits?at=99999", "")
}

// One task is looked at from all sides, now and as it was.
func TestLook(t *testing.T) {
	s := open(t, nil)
	var r client.Receipt
	s.want(200, "POST", "/api/v1/tasks", `{"spec":{"run":{"argv":["true"]}}}`, nil)
	s.want(200, "POST", "/api/v1/tasks", `{"spec":{"run":{"argv":["date"]}},"priority":3}`, &r)
	at := "/api/v1/tasks/" + string(r.ID)
	var is task.Task
	s.want(200, "POST", at+"/edit", `{"priority":8,"reason":"urgent"}`, &is)
	if is.Route.Priority() != 8 {
		t.Errorf("the priority is %d", is.Route.Priority())
	}
	s.refused(400, "bad-request", "POST", at+"/edit", `{"priority":80}`)
	s.want(200, "GET", at+"?at="+itoa(r.Seq), "", &is)
	if is.Route.Priority() != 3 {
		t.Errorf("the priority was %d", is.Route.Priority())
	}
	s.refused(404, "no-task", "GET", at+"?at=1", "")
	s.want(200, "GET", at+"?at="+time.Now().Add(time.Hour).UTC().Format(time.RFC3339), "", nil)
	for _, never := range []string{"0", "noon", "99999", "2020-01-01T00:00:00Z"} {
		s.refused(400, "bad-request", "GET", at+"?at="+never, "")
	}
	var diff struct{ Changes []view.Change }
	s.want(200, "GET", at+"/diff?at="+itoa(r.Seq), "", &diff)
	if len(diff.Changes) == 0 {
		t.Error("nothing has changed")
	}
	s.refused(400, "bad-request", "GET", at+"/diff", "")
	var why struct {
		State task.State
		Who   string
		Facts []client.ShownFact
	}
	s.want(200, "GET", at+"/why", "", &why)
	if why.State != task.Pending || why.Who == "" || len(why.Facts) == 0 {
		t.Errorf("why: %+v", why)
	}
	var page struct {
		Facts []client.ShownFact
		Next  uint64
	}
	s.want(200, "GET", at+"/events", "", &page)
	if len(page.Facts) < 2 || page.Facts[0].Seq != r.Seq {
		t.Errorf("its facts are %+v", page)
	}
	var all []client.ShownFact
	for from := uint64(1); from > 0; from = page.Next {
		page.Facts, page.Next = nil, 0
		s.want(200, "GET", "/api/v1/events?limit=1&from="+itoa(from), "", &page)
		all = append(all, page.Facts...)
	}
	end, err := s.store.Last(t.Context())
	if err != nil || len(all) == 0 || all[len(all)-1].Seq != end {
		t.Errorf("the log ends at %d, and its pages with %+v, %v", end, all, err)
	}

	for n := range 3 {
		if err := s.store.Print(t.Context(), output.Lines{Task: r.ID, Attempt: 1, Epoch: 1, Lines: []output.Line{{N: n + 1, Stream: output.Stdout, Text: "hello"}}}); err != nil {
			t.Fatal(err)
		}
	}
	var said saidBatches
	s.want(200, "GET", at+"/output?limit=2", "", &said)
	if len(said.Batches) != 2 || said.Next == 0 {
		t.Fatalf("the first lines are %+v", said)
	}
	after := said.Next
	said = saidBatches{}
	s.want(200, "GET", at+"/output?limit=2&after="+itoa(after), "", &said)
	if len(said.Batches) != 1 || said.Next != 0 || said.Batches[0].Of.Lines[0].N != 3 {
		t.Errorf("the last lines are %+v", said)
	}
}

// saidBatches is a page of output.
type saidBatches struct {
	Batches []struct {
		Seq uint64
		Of  output.Lines
	}
	Next uint64
}
