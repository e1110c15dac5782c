package httpapi

import (
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/node"
)

// Lists in the order of names have pages, as the list of tasks has.
func TestPages(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	recorder := events.Recorder{Log: s.store, Actor: "ada", Now: time.Now, NewID: events.NewID}
	names := []string{"a", "b", "c", "d", "e"}
	for _, name := range names {
		s.want(200, "PUT", prefix+"/jobs/"+name, `{"definition":{"run":{"argv":["date"]}}}`, nil)
		s.want(200, "PUT", prefix+"/schedules/"+name, `{"definition":{"schedule":{"cron":"0 3 * * *"},"task":{"job":"`+name+`"}}}`, nil)
		s.want(200, "PUT", prefix+"/calendars/"+name, `{"definition":{"rules":[{"open":"mon-fri"}],"otherwise":"closed"}}`, nil)
		s.want(200, "POST", prefix+"/queues/"+name+"/limit", `{"running":1}`, nil)
		if _, _, err := recorder.DoNode(t.Context(), node.ID(name), node.Register{Session: name}); err != nil {
			t.Fatal(err)
		}
	}
	at := itoa(s.last())
	s.want(200, "GET", prefix+"/tasks?limit=1&at_least="+at, "", nil)
	for _, list := range []string{"jobs", "schedules", "calendars", "queues", "nodes"} {
		for _, then := range []string{"", "&at=" + at} {
			var all []string
			next, pages := "", 0
			for first := true; first || next != ""; first = false {
				var page map[string]json.RawMessage
				got := s.want(200, "GET", prefix+"/"+list+"?limit=2&cursor="+url.QueryEscape(next)+then, "", &page)
				s.want(304, "GET", prefix+"/"+list+"?limit=2&cursor="+url.QueryEscape(next)+then, "", nil, "If-None-Match", got.header.Get("ETag"))
				var rows []struct{ Name, ID string }
				next = ""
				if err := json.Unmarshal(page[list], &rows); err != nil {
					t.Fatal(err)
				}
				if page["next"] != nil {
					if err := json.Unmarshal(page["next"], &next); err != nil {
						t.Fatal(err)
					}
				}
				for _, row := range rows {
					all = append(all, row.Name+row.ID)
				}
				pages++
			}
			if !slices.Equal(all, names) || pages != 3 {
				t.Errorf("%s%s has %v on %d pages", list, then, all, pages)
			}
		}
		for _, wrong := range []string{"limit=1001", "limit=-1", "cursor=x", "cursor=" + url.QueryEscape("PA")} {
			s.refused(400, "bad-request", "GET", prefix+"/"+list+"?"+wrong, "")
		}
	}
}

// A request that waits for news is refused before it waits, if anything else of it is wrong.
func TestNewsOfNothing(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	s.submitted(1)
	for _, wrong := range []string{"limit=1001", "limit=-1", "cursor=x", "after=x", "id=x", "states=none", "query=sate:error", "at=1", "suspect=maybe"} {
		began := time.Now()
		s.refused(400, "bad-request", "GET", prefix+"/tasks?newer_than=99999999&"+wrong, "")
		if took := time.Since(began); took > 15*time.Second { // news are waited for for longer
			t.Errorf("%s is refused after %v", wrong, took)
		}
	}
}

// Limits have pages, too: those with the most waiting tasks come first.
func TestPagesOfLimits(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	for i, key := range []string{"a", "b", "b", "c", "c", "c", "d"} {
		s.want(200, "POST", prefix+"/tasks", fmt.Sprintf(`{"spec":{"run":{"argv":["echo","%d"]},"concurrency":[{"key":%q,"max":1}]}}`, i, key), nil)
	}
	var names []string
	for next := ""; len(names) == 0 || next != ""; {
		var page client.LimitPage
		s.want(200, "GET", prefix+"/limits?limit=2&at=end&cursor="+url.QueryEscape(next), "", &page)
		for i := range page.Counters {
			names = append(names, page.Counters[i].Name)
		}
		if next = page.Next; page.All != 4 || len(page.Counters) != 2 {
			t.Errorf("a page is %+v", page)
		}
	}
	if !slices.Equal(names, []string{"key:queue.default/c", "key:queue.default/b", "key:queue.default/a", "key:queue.default/d"}) {
		t.Errorf("the limits are %v", names)
	}
	s.refused(400, "bad-request", "GET", prefix+"/limits?cursor=x&at=end", "")
}

// A queue exists as soon as something names it; one that nobody knows is refused as other nouns are.
func TestQueueOfNobody(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	if p := s.refused(404, "no-queue", "GET", prefix+"/queues/nosuch", ""); !strings.Contains(p.Detail, "nosuch") {
		t.Errorf("it says %s", p.Detail)
	}
	s.refused(404, "no-queue", "GET", prefix+"/queues?queue=nosuch", "")
	var r client.Receipt
	s.want(200, "POST", prefix+"/tasks", `{"spec":{"run":{"argv":["date"]}},"queue":"crawl"}`, &r)
	var page client.QueuePage
	s.want(200, "GET", prefix+"/queues/crawl?at_least="+itoa(r.Seq), "", &page)
	if len(page.Queues) != 1 || page.Queues[0].Name != "crawl" || page.Queues[0].States["pending"] != 1 {
		t.Errorf("the queue is %+v", page)
	}
	s.refused(404, "no-queue", "GET", prefix+"/queues/nosuch?at="+itoa(r.Seq), "")
	s.refused(400, "bad-request", "GET", prefix+"/queues/crawl?limit=1", "")
}

// The dead letters of a moment are those of then, whatever was dismissed since.
func TestMessagesOfThen(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	var seqs []uint64
	for i := range 4 {
		if err := s.publish(fmt.Sprintf("mr.task.01ARZ3NDEKTSV4RRFFQ69G5FA%d", i), []byte("{")); err != nil {
			t.Fatal(err)
		}
		for s.last() != uint64(i)+1 { // it is stored
			if t.Context().Err() != nil {
				t.Fatal(t.Context().Err())
			}
		}
		seqs = append(seqs, s.last())
	}
	s.want(200, "POST", fmt.Sprintf("%s/messages/%d/dismiss", prefix, seqs[0]), "", nil)
	then := s.last()
	s.want(200, "POST", fmt.Sprintf("%s/messages/%d/dismiss", prefix, seqs[1]), "", nil)
	s.want(200, "POST", fmt.Sprintf("%s/messages/%d/dismiss", prefix, seqs[2]), "", nil)
	for query, want := range map[string][]uint64{
		"at_least=" + itoa(s.last()): {seqs[3]},
		"at=end":                     {seqs[3]},
		"at=" + itoa(then):           {seqs[3], seqs[2], seqs[1]},
		"at=" + itoa(seqs[2]):        {seqs[2], seqs[1], seqs[0]},
		"limit=2&at=" + itoa(then):   {seqs[3], seqs[2]},
		"before=" + itoa(seqs[2]) + "&at=" + itoa(then): {seqs[1]},
	} {
		var page client.UnreadablePage
		s.want(200, "GET", prefix+"/messages?"+query, "", &page)
		var have []uint64
		for _, m := range page.Messages {
			have = append(have, m.Seq)
			if m.Reason == "" || string(m.Raw) != "{" || !strings.HasPrefix(m.Place, "mr.task.") {
				t.Errorf("%s has %+v", query, m)
			}
		}
		if !slices.Equal(have, want) {
			t.Errorf("%s: %v, want %v", query, have, want)
		}
	}
	s.refused(400, "bad-request", "GET", prefix+"/messages?at=99999", "")
}

// The rows of the read model are the tasks that a list has.
func TestRows(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	last := s.submitted(5)[4]
	var list client.ListPage
	s.want(200, "GET", prefix+"/tasks?oldest_first=true&at_least="+itoa(last), "", &list)
	var tasks []task.Task
	next := ""
	for first := true; first || next != ""; first = false {
		var page client.RowPage
		got := s.want(200, "GET", prefix+"/rows?limit=2&oldest_first=true&at_least="+itoa(last)+"&after="+next, "", nil)
		if err := page.ReadJSON(got.body); err != nil {
			t.Fatal(err)
		}
		if page.Seq < last {
			t.Errorf("the rows reflect %d, asked for at least %d", page.Seq, last)
		}
		tasks, next = append(tasks, page.Tasks...), string(page.Next)
	}
	if !reflect.DeepEqual(tasks, list.Tasks) {
		t.Errorf("the rows are %+v, and the list has %+v", tasks, list.Tasks)
	}
	for _, wrong := range []string{"limit=1001", "limit=-1", "after=x", "at_least=99999999"} {
		s.refused(400, "bad-request", "GET", prefix+"/rows?"+wrong, "")
	}
}
