package httpapi

import (
	"encoding/json"
	"testing"
	"time"

	"millrace/service/client"
)

// The ticks of some time get their tasks, as many as may be under way and none twice; how far that
// has come is looked at and followed.
func TestBackfill(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	s.want(200, "PUT", "/api/v1/schedules/nightly", `{"definition":{"schedule":{"cron":"30 2 * * *"},"task":{"spec":{"run":{"argv":["date"]}}}}}`, nil)
	const at, span = "/api/v1/schedules/nightly/backfill", `"from":"2026-03-01","to":"2026-03-06"`
	fill := func(body string) (is client.Backfilled) {
		t.Helper()
		s.want(200, "POST", at, `{`+span+body+`}`, &is)
		return is
	}
	end, err := s.store.Last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if is := fill(`,"dry_run":true,"limit":2`); is.Ticks != 5 || is.Missing != 5 || !is.DryRun || is.Made != 0 || len(is.Tasks) != 2 || !is.Tasks[0].Tick.Equal(time.Date(2026, 3, 1, 2, 30, 0, 0, time.UTC)) {
		t.Errorf("it would be %+v", is)
	}
	if now, err := s.store.Last(t.Context()); err != nil || now != end {
		t.Errorf("a dry run has written: %d, %v", now, err)
	}
	first := fill(`,"max_parallel":2`)
	if first.Made != 2 || first.Missing != 3 || first.Open != 2 || len(first.Tasks) != 2 || !first.Tasks[0].Made {
		t.Errorf("the first are %+v", first)
	}
	if is := fill(`,"max_parallel":2`); is.Made != 0 || is.Open != 2 {
		t.Errorf("without room it makes %+v", is)
	}

	follows := s.listen(at + "?from=2026-03-01&to=2026-03-06")
	var is client.Backfilled
	hear := func() {
		t.Helper()
		h, ok := follows.next()
		if !ok || json.Unmarshal([]byte(h.data), &is) != nil {
			t.Fatalf("who follows hears %+v", h)
		}
	}
	for hear(); is.Missing != 3; hear() {
	}
	s.want(200, "POST", "/api/v1/tasks/"+string(first.Tasks[0].Task)+"/cancel", `{}`, nil)
	for hear(); is.States["cancelled"] != 1; hear() {
	}
	if is.Open != 1 || is.Missing != 3 {
		t.Errorf("it has come to %+v", is)
	}
	if is := fill(`,"max_parallel":2`); is.Made != 1 || is.Missing != 2 || is.Open != 2 {
		t.Errorf("with room for one it makes %+v", is)
	}
	if is := fill(`,"limit":1`); is.Made != 1 || is.Missing != 1 {
		t.Errorf("one is %+v", is)
	}
	for _, made := range []int{1, 0} {
		if is := fill(``); is.Made != made || is.Missing != 0 || is.States["pending"]+is.States["cancelled"] != 5 {
			t.Errorf("all are %+v", is)
		}
	}
	s.refused(404, "no-schedule", "POST", "/api/v1/schedules/nobody/backfill", `{"from":"2026-03-01"}`)
	for _, body := range []string{`{}`, `{"from":"soon"}`, `{"from":"2026-03-02","to":"2026-03-01"}`, `{"from":"2026-03-01","max_parallel":-1}`, `{"from":"2026-03-01","limit":1001}`, `{"from":"0001-01-01"}`} {
		s.refused(400, "bad-request", "POST", at, body)
	}
}

// A tick whose task cannot be made ends the request, which says why.
func TestBackfillBreaks(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	s.want(200, "PUT", "/api/v1/schedules/nightly", `{"definition":{"schedule":{"cron":"30 2 * * *"},"task":{"queue":"nights","spec":{"run":{"argv":["date"]}}}}}`, nil)
	s.want(200, "POST", "/api/v1/queues/nights/limit", `{"waiting":2}`, nil)
	var is client.Backfilled
	s.want(200, "POST", "/api/v1/schedules/nightly/backfill", `{"from":"2026-03-01","to":"2026-03-06"}`, &is)
	if is.Made != 2 || is.Missing != 3 || is.Broken == "" {
		t.Errorf("it has come to %+v", is)
	}
	s.refused(429, "queue-full", "POST", "/api/v1/schedules/nightly/backfill", `{"from":"2026-03-01","to":"2026-03-06"}`)
}
