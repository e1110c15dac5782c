package httpapi

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/api"
	"millrace/client"
	"millrace/events"
	"millrace/jet/definitions"
	"millrace/task"
	"millrace/task/breaker"
	"millrace/task/job"
	"millrace/task/output"
	"millrace/task/queue"
	"millrace/view"
)

// One request can hold several different submissions; nothing is submitted if one of them is wrong.
func TestBulk(t *testing.T) {
	t.Parallel()
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
	var p api.Problem
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

// last is the sequence at which the log ends.
func (s *site) last() uint64 {
	s.Helper()
	seq, err := s.store.Last(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	return seq
}

// The tasks that a filter chooses are cancelled and reopened as one batch, after they were counted;
// an empty filter chooses nothing.
func TestMany(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	s.submitted(5)
	var other client.Receipt
	s.want(200, "POST", "/api/v1/tasks", `{"spec":{"run":{"argv":["date"]}},"queue":"crawl","labels":{"team":"a"}}`, &other)
	for _, body := range []string{``, `{"filter":{"states":["pending"]}}`, `{"filter":{"queue":"default","states":["finished"]}}`, `{"all":true,"limit":1001}`, `{"filter":{"query":"state:pending"}}`, `{"filter":{"query":"state:finished queue:default"}}`, `{"filter":{"dead":true}}`, `{"filter":{"queue":"default","at":"1"}}`, `{"filter":{"cursor":"x"}}`} {
		s.refused(400, "bad-request", "POST", "/api/v1/tasks/cancel", body)
	}
	s.refused(400, "bad-request", "POST", "/api/v1/tasks/retry", `{"filter":{"states":["running"]},"all":true}`)
	act := func(verb, body string) (r client.BulkReport) {
		t.Helper()
		s.want(200, "POST", "/api/v1/tasks/"+verb, body, &r)
		return r
	}
	if r := act("cancel", `{"all":true,"dry_run":true,"limit":2}`); r.Chosen != 6 || len(r.Tasks) != 2 || r.Done != 0 || !r.DryRun || r.States["pending"] != 6 {
		t.Errorf("it would be %+v", r)
	}
	count := func(body string) (r client.BulkReport) {
		t.Helper()
		s.want(200, "POST", "/api/v1/tasks/count", body, &r)
		return r
	}
	if r := count(`{"for":"cancel","limit":2}`); r.Chosen != 6 || len(r.Tasks) != 2 || r.Done != 0 || !r.DryRun || r.States["pending"] != 6 {
		t.Errorf("counted are %+v", r)
	}
	if r := count(`{"for":"retry","filter":{"queue":"default"}}`); r.Chosen != 0 {
		t.Errorf("counted for a retry are %+v", r)
	}
	for _, body := range []string{``, `{"for":"list"}`, `{"for":"cancel","limit":1001}`, `{"for":"cancel","filter":{"states":["finished"]}}`, `{"for":"cancel","dry_run":true}`} {
		s.refused(400, "bad-request", "POST", "/api/v1/tasks/count", body)
	}
	if r := act("cancel", `{"filter":{"query":"label:team=a state:pending"},"reason":"wrong team"}`); r.Done != 1 || r.Tasks[0] != other.ID || r.Batch == "" {
		t.Errorf("cancelled are %+v", r)
	}
	r := act("cancel", `{"filter":{"queue":"default"},"limit":3}`)
	if r.Chosen != 3 || r.Done != 3 || r.States["cancelled"] != 3 {
		t.Errorf("cancelled are %+v", r)
	}
	if again := act("retry", `{"filter":{"batch":"`+r.Batch+`"},"reason":"still wanted"}`); again.Done != 3 || again.States["pending"] != 3 || len(again.Refused) != 0 {
		t.Errorf("given another life are %+v", again)
	}
	// Tasks that wait for a signal get it, with its data; the others still wait.
	for range 2 {
		s.want(200, "POST", "/api/v1/tasks", `{"spec":{"run":{"argv":["date"]},"signal":{}},"queue":"gate"}`, nil)
	}
	var later client.Receipt
	s.want(200, "POST", "/api/v1/tasks", `{"spec":{"run":{"argv":["date"]}},"queue":"gate","delay":"1h"}`, &later)
	s.refused(400, "bad-request", "POST", "/api/v1/tasks/signal", `{}`)
	s.refused(400, "bad-request", "POST", "/api/v1/tasks/signal", `{"filter":{"queue":"gate","states":["finished"]}}`)
	s.refused(400, "bad-request", "POST", "/api/v1/tasks/signal", `{"filter":{"queue":"gate"},"data":"`+strings.Repeat("x", job.MaxInputs)+`"}`)
	s.refused(400, "bad-request", "POST", "/api/v1/tasks/cancel", `{"filter":{"queue":"gate"},"data":1}`)
	if r := act("signal", `{"filter":{"queue":"gate"},"dry_run":true}`); r.Chosen != 2 || r.States["held"] != 2 || r.Done != 0 {
		t.Errorf("signalled would be %+v", r)
	}
	if r := count(`{"for":"signal","filter":{"queue":"gate"}}`); r.Chosen != 2 || r.States["held"] != 2 {
		t.Errorf("counted for a signal are %+v", r)
	}
	given := act("signal", `{"filter":{"queue":"gate"},"data":{"by":"the board"},"reason":"voted"}`)
	if given.Done != 2 || given.States["pending"] != 2 || given.Batch == "" {
		t.Errorf("signalled are %+v", given)
	}
	if is, err := client.New(s.store, "").Task(t.Context(), given.Tasks[0]); err != nil || !strings.Contains(string(is.Inputs), "the board") {
		t.Errorf("it is told %s, %v", is.Inputs, err)
	}
	if r := act("signal", `{"filter":{"queue":"gate"}}`); r.Chosen != 0 {
		t.Errorf("signalled again are %+v", r)
	}
	if r := act("signal", `{"tasks":["`+string(given.Tasks[0])+`","`+string(later.ID)+`"]}`); r.Chosen != 0 || len(r.Refused) != 0 {
		t.Errorf("what waits for none is signalled: %+v", r)
	}

	// Dead letters are dismissed, as one batch; other tasks stay.
	rec := &events.Recorder{Log: s.store, Actor: "scheduler", Now: s.store.Now, NewID: events.NewID}
	for _, id := range given.Tasks {
		dead, err := rec.Load(t.Context(), id)
		if err == nil {
			_, _, err = rec.Do(t.Context(), dead, task.Expire{Detail: "a test"})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s.refused(400, "bad-request", "POST", "/api/v1/tasks/dismiss", `{}`)
	s.refused(400, "bad-request", "POST", "/api/v1/tasks/dismiss", `{"filter":{"dead":true}}`)
	if r := act("dismiss", `{"all":true,"dry_run":true}`); r.Chosen != 2 {
		t.Errorf("dropped would be %+v", r)
	}
	dropped := act("dismiss", `{"filter":{"queue":"gate"},"reason":"seen"}`)
	if dropped.Done != 2 || dropped.States["abnormal"] != 2 {
		t.Errorf("dropped are %+v", dropped)
	}
	for _, again := range []string{`{"all":true}`, `{"tasks":["` + string(dropped.Tasks[0]) + `"]}`} {
		if r := act("dismiss", again); r.Chosen != 0 {
			t.Errorf("dropped again are %+v", r)
		}
	}
	if facts, err := s.store.Task(t.Context(), dropped.Tasks[0]); err != nil || facts[len(facts)-1].Fact.Corr != dropped.Batch || facts[len(facts)-1].Fact.Actor != "ada" {
		t.Errorf("the facts are %+v, %v", facts, err)
	}
	s.want(200, "POST", "/api/v1/tasks/"+string(later.ID)+"/cancel", "", nil)

	facts, err := s.store.Task(t.Context(), other.ID)
	if err != nil || facts[len(facts)-1].Fact.Actor != "ada" || facts[len(facts)-1].Fact.Corr == "" {
		t.Errorf("the facts are %+v, %v", facts, err)
	}

	s.want(200, "POST", "/api/v1/queues/default/purge", `{"dry_run":true}`, &r)
	if r.Chosen != 5 || r.Done != 0 {
		t.Errorf("purged would be %+v", r)
	}
	s.refused(400, "bad-request", "POST", "/api/v1/queues/default/purge", `{"states":["running"]}`)
	s.want(200, "POST", "/api/v1/queues/default/purge", `{"reason":"not wanted"}`, &r)
	if r.Done != 5 || r.Interrupted {
		t.Errorf("purged are %+v", r)
	}
	if r := act("cancel", `{"all":true}`); r.Chosen != 0 {
		t.Errorf("left were %+v", r)
	}
}

// Future ticks are listed for all schedules and for one.
func TestTicks(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	for _, name := range []string{"nightly", "hourly", "paused"} {
		s.want(200, "PUT", "/api/v1/schedules/"+name, `{"definition":{"schedule":{"cron":"0 3 * * *"},"task":{"spec":{"run":{"argv":["date"]}}}}}`, nil)
	}
	s.want(200, "POST", "/api/v1/schedules/paused/pause", "", nil)
	var is struct {
		Ticks []struct {
			Schedule string
			Tick     time.Time
		}
		Paused []string
	}
	s.want(200, "GET", "/api/v1/ticks?limit=4&from=2100-01-01T03:00:00Z", "", &is)
	if len(is.Ticks) != 4 || !is.Ticks[0].Tick.Equal(time.Date(2100, 1, 1, 3, 0, 0, 0, time.UTC)) || len(is.Paused) != 1 {
		t.Errorf("there come %+v", is)
	}
	s.want(200, "GET", "/api/v1/schedules/paused/next?until=2100-01-02T00:00:00Z&from=2100-01-01T00:00:00Z", "", &is)
	if len(is.Ticks) != 1 || is.Ticks[0].Schedule != "paused" || len(is.Paused) != 1 {
		t.Errorf("there come %+v", is)
	}
	s.refused(404, "no-schedule", "GET", "/api/v1/schedules/nobody/next", "")
	s.refused(400, "bad-request", "GET", "/api/v1/ticks?limit=1001", "")
}

// The breaker of a job is looked at and closed.
func TestBreaker(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	now := s.store.Now().UTC()
	_, err := s.store.Append(t.Context(), &events.Fact{ID: events.NewID(now), At: now, Type: events.BreakerOpened, Job: "hello", Event: breaker.Opened{Reason: "r", Until: now.Add(time.Hour)}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	var is breaker.Circuit
	s.want(200, "GET", "/api/v1/jobs/hello/breaker", "", &is)
	if is.State != breaker.StateOpen || is.Reason != "r" {
		t.Errorf("it is %+v", is)
	}
	s.want(200, "POST", "/api/v1/jobs/hello/breaker/reset", `{"reason":"the site is back"}`, &is)
	if !is.Closed() {
		t.Errorf("it is %+v", is)
	}
	s.refused(404, "no-job", "GET", "/api/v1/jobs/nobody/breaker", "")
	s.refused(404, "no-job", "POST", "/api/v1/jobs/nobody/breaker/reset", "")
	if p := s.refused(404, "no-job", "GET", "/api/v1/jobs/nobody/history", ""); !strings.Contains(p.Detail, "nobody") {
		t.Errorf("the history of nobody: %s", p.Detail)
	}
}

// Bundles are looked at, compared, held against their digests, and their names removed.
func TestFiles(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	dir := t.TempDir()
	push := func(files ...string) string {
		for _, name := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		done, err := client.New(s.store, "ada").PushFiles(t.Context(), client.FilesPush{Dir: dir, Name: "app"})
		if err != nil {
			t.Fatal(err)
		}
		return string(done.Digest)
	}
	first := push("a", "b")
	second := push("c")
	var list struct{ Bundles []definitions.NamedVersion }
	s.want(200, "GET", "/api/v1/files", "", &list)
	if len(list.Bundles) != 1 || string(list.Bundles[0].Digest) != second {
		t.Errorf("there are %+v", list)
	}
	s.want(200, "GET", "/api/v1/files?name=app", "", &list)
	if len(list.Bundles) != 2 || string(list.Bundles[1].Digest) != first {
		t.Errorf("its versions are %+v", list)
	}
	var v struct {
		Digest  string
		Entries []struct{ Path string }
		Next    string
	}
	s.want(200, "GET", "/api/v1/files/app?limit=2", "", &v)
	if v.Digest != second || len(v.Entries) != 2 || v.Next != "b" {
		t.Errorf("the first page is %+v", v)
	}
	v.Next = ""
	s.want(200, "GET", "/api/v1/files/app?limit=2&after=b", "", &v)
	if len(v.Entries) != 1 || v.Entries[0].Path != "c" || v.Next != "" {
		t.Errorf("the second page is %+v", v)
	}
	var diff struct {
		Changes []struct{ Kind, Path string }
		All     int
	}
	s.want(200, "GET", "/api/v1/files/app@"+first[:8]+"/diff?with=app", "", &diff)
	if diff.All != 1 || diff.Changes[0].Path != "c" || diff.Changes[0].Kind != "added" {
		t.Errorf("different is %+v", diff)
	}
	var check struct {
		Read     int64
		All      int
		Problems []client.FilesProblem
	}
	s.want(200, "GET", "/api/v1/files/app/verify", "", &check)
	if check.Read != 3 || check.All != 0 || check.Problems == nil {
		t.Errorf("it is %+v", check)
	}
	s.refused(404, "no-files", "GET", "/api/v1/files/nobody", "")
	s.refused(400, "bad-request", "GET", "/api/v1/files/a*b", "")
	s.want(200, "DELETE", "/api/v1/files/app", "", nil)
	s.refused(404, "no-files", "DELETE", "/api/v1/files/app", "")
}

// The log is held against the promises, whole or in part.
func TestVerify(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	all := s.submitted(3)
	var is struct {
		Facts, Violations int
		Last              uint64
		Rules             []struct{ Rule, Status string }
		Interrupted       bool
	}
	s.want(200, "GET", "/api/v1/verify", "", &is)
	if is.Facts < 3 || is.Violations != 0 || is.Last < all[2] || is.Interrupted {
		t.Errorf("it is %+v", is)
	}
	s.want(200, "GET", "/api/v1/verify?from="+itoa(all[1])+"&to="+itoa(all[1])+"&rules=I-2&rules=i-7", "", &is)
	if is.Last != all[1] || is.Facts != 1 {
		t.Errorf("of one fact it is %+v", is)
	}
	s.refused(400, "bad-request", "GET", "/api/v1/verify?rules=I-99", "")
	s.refused(400, "bad-request", "GET", "/api/v1/verify?from=3&to=2", "")
	end, err := s.store.Last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	evil := events.Fact{ID: events.NewID(s.store.Now()), At: s.store.Now(), Type: events.TaskCancelled, Task: "01ARZ3NDEKTSV4RRFFQ69G5FAV", Event: task.CancelConfirmed{}}
	if _, err := s.store.Append(t.Context(), &evil, 0); err != nil {
		t.Fatal(err)
	}
	s.want(200, "GET", "/api/v1/verify", "", &is)
	if is.Violations == 0 || is.Last != end+1 {
		t.Errorf("an end of nothing is kept: %+v", is)
	}
}

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
		if s.want(200, "GET", "/api/v1/tasks?text="+text+"&at="+itoa(second.Seq), "", &said); len(said.Tasks) != want || said.Seq != second.Seq {
			t.Errorf("%q is said by %+v, want %d", text, said, want)
		}
	}
	for _, refused := range []string{"tasks?suspect=true", "queues?rates=true", "tasks?limit=2000", "tasks?cursor=x"} {
		s.refused(400, "bad-request", "GET", "/api/v1/"+refused+"&at="+itoa(second.Seq), "")
	}
	s.refused(400, "bad-request", "GET", "/api/v1/limits?at=99999", "")
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
