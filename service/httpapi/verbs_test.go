package httpapi

import (
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/limit"
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
	// What chooses no task is refused, and not passed over.
	for name, value := range map[string]string{"limit": "1", "cursor": `"x"`, "after": `"01JNAT00000000000000000001"`, "at_least": "1", "newer_than": "1", "progress": "true", "counts": "true", "at": `"1"`} {
		for _, request := range []string{"cancel", "count"} {
			body := `{"filter":{"queue":"default","` + name + `":` + value + `}`
			if request == "count" {
				body += `,"for":"cancel"`
			} else {
				body += `,"dry_run":true`
			}
			if p := s.refused(400, "bad-request", "POST", "/api/v1/tasks/"+request, body+"}"); !strings.Contains(p.Detail, name) {
				t.Errorf("the refusal of %s says %q", name, p.Detail)
			}
		}
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
	if r := act("signal", `{"filter":{"queue":"gate"},"name":"another"}`); r.Done != 0 || len(r.Refused) != 2 {
		t.Errorf("signalled by another name are %+v", r)
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
	_, err := s.store.Append(t.Context(), &events.Fact{ID: events.NewID(now), At: now, Type: events.BreakerOpened, Job: "hello", Event: limit.Opened{Reason: "r", Until: now.Add(time.Hour)}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	var is limit.Circuit
	s.want(200, "GET", "/api/v1/jobs/hello/breaker", "", &is)
	if is.State != limit.StateOpen || is.Reason != "r" {
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
