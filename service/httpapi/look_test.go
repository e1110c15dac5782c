package httpapi

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/output"
)

// Lists and counts of a past moment show what was then.
func TestListsOfThen(t *testing.T) {
	t.Parallel()
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
	var said client.ListPage
	for text, want := range map[string]int{"date": 1, "dates": 0} {
		if s.want(200, "GET", "/api/v1/tasks?at_least="+itoa(second.Seq)+"&text="+text, "", &said); len(said.Tasks) != want {
			t.Errorf("%q is said by %+v, want %d", text, said, want)
		}
	}
	for _, refused := range []string{"tasks?suspect=true", "tasks?text=date", "tasks?query=date", "queues?rates=true", "tasks?limit=2000", "tasks?cursor=x"} {
		s.refused(400, "bad-request", "GET", "/api/v1/"+refused+"&at="+itoa(second.Seq), "")
	}
	s.refused(400, "bad-request", "GET", "/api/v1/limits?at=99999", "")
}

// One task is looked at from all sides, now and as it was.
func TestLook(t *testing.T) {
	t.Parallel()
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
	s.want(200, "GET", at+"?at=end", "", nil)
	s.want(200, "GET", at+"?at=-0s", "", nil)
	for never, why := range map[string]string{
		"0": "sequences begin with 1", "noon": "is no moment", "99999": "there is no sequence 99999 yet", "2020-01-01T00:00:00Z": "is before the log begins", "2999-01-01T00:00:00Z": "2999-01-01 00:00:00.000 has not come yet",
	} {
		if p := s.refused(400, "bad-request", "GET", at+"?at="+never, ""); !strings.Contains(p.Detail, why) {
			t.Errorf("at=%s is refused with %q, want %q", never, p.Detail, why)
		}
	}
	s.refused(400, "bad-request", "GET", "/api/v1/tasks?at=2999-01-01T00:00:00Z", "")
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
	for _, moment := range []string{"", "?at=" + itoa(r.Seq)} {
		why.Facts = nil
		s.want(200, "GET", at+"/why"+moment, "", &why)
		if why.State != task.Pending || why.Who == "" || len(why.Facts) == 0 || moment != "" && why.Facts[len(why.Facts)-1].Seq > r.Seq {
			t.Errorf("why%s: %+v", moment, why)
		}
	}
	var page struct {
		Facts []client.ShownFact
		Next  uint64
	}
	s.want(200, "GET", at+"/events", "", &page)
	if len(page.Facts) < 2 || page.Facts[0].Seq != r.Seq {
		t.Errorf("its facts are %+v", page)
	}
	page.Facts = nil
	s.want(200, "GET", at+"/events?at="+itoa(r.Seq), "", &page)
	if len(page.Facts) != 1 || page.Facts[0].Seq != r.Seq {
		t.Errorf("its facts were %+v", page)
	}
	for _, of := range []string{"/why", "/events"} {
		s.refused(404, "no-task", "GET", at+of+"?at=1", "")
	}
	for _, of := range []string{"/output", "/records", "/artifacts"} {
		s.want(200, "GET", at+of, "", nil)
		s.refused(404, "no-task", "GET", "/api/v1/tasks/01ARZ3NDEKTSV4RRFFQ69G5FAV"+of, "")
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

// The facts that a filter chooses are those of the whole log that it fits, page by page, whether the
// index or the log tells them.
func TestChosenEvents(t *testing.T) {
	s := open(t, nil)
	var last client.Receipt
	of := map[task.ID]string{}
	for i := range 60 {
		queue := []string{"mails", "crawl", "films"}[i%3]
		s.want(200, "POST", "/api/v1/tasks", fmt.Sprintf(`{"queue":%q,"spec":{"handler":"h"}}`, queue), &last)
		of[last.ID] = queue
		if i%5 == 0 {
			s.want(200, "POST", "/api/v1/tasks/"+string(last.ID)+"/cancel", `{"reason":"the wrong one"}`, nil)
		}
	}
	s.want(200, "POST", "/api/v1/queues/crawl/pause", `{"reason":"later"}`, nil)
	all := s.facts("limit=1000")
	for query, chosen := range map[string]func(f *shownFact) bool{
		"queue=crawl": func(f *shownFact) bool {
			return f.Fact.Queue == "crawl" || f.Fact.Task != "" && of[task.ID(f.Fact.Task)] == "crawl"
		},
		"queue=none":           func(*shownFact) bool { return false },
		"types=task.cancelled": func(f *shownFact) bool { return f.Fact.Type == "task.cancelled" },
		"types=queue&types=task.cancelled": func(f *shownFact) bool {
			return f.Fact.Type == "task.cancelled" || strings.HasPrefix(f.Fact.Type, "queue.")
		},
		"types=task.cancelled&queue=films": func(f *shownFact) bool {
			return f.Fact.Type == "task.cancelled" && of[task.ID(f.Fact.Task)] == "films"
		},
		"node=nobody":                     func(*shownFact) bool { return false },
		"task=" + string(last.ID):         func(f *shownFact) bool { return f.Fact.Task == string(last.ID) },
		"task=" + strings.Repeat("0", 26): func(*shownFact) bool { return false },
	} {
		var want []uint64
		for i := range all {
			if chosen(&all[i]) {
				want = append(want, all[i].Seq)
			}
		}
		for _, limit := range []int{1, 7, 1000} {
			var have []uint64
			for _, f := range s.facts(fmt.Sprintf("limit=%d&%s", limit, query)) {
				have = append(have, f.Seq)
			}
			if !slices.Equal(have, want) {
				t.Errorf("%s, %d at once: %v, want %v", query, limit, have, want)
			}
		}
	}
}

// shownFact is the part of a fact that tests look at.
type shownFact struct {
	Seq  uint64
	Fact struct{ Type, Task, Queue string }
}

// facts returns all facts that a query chooses, page by page.
func (s *site) facts(query string) (all []shownFact) {
	s.Helper()
	for from := uint64(1); from > 0; {
		var page struct {
			Facts []shownFact
			Next  uint64
		}
		s.want(200, "GET", fmt.Sprintf("/api/v1/events?from=%d&%s", from, query), "", &page)
		if page.Next > 0 && page.Next <= from {
			s.Fatalf("%s: the page after %d begins at %d", query, from, page.Next)
		}
		all, from = append(all, page.Facts...), page.Next
	}
	return all
}
