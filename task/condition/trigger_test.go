package condition

import (
	"errors"
	"strings"
	"testing"
	"time"

	"millrace/task/job"
)

// Which events make tasks: yes, no, or a part of what refuses the condition, or the event.
func TestTriggered(t *testing.T) {
	orders := job.Handlers{Subject: "orders.>"}
	after := job.Handlers{Job: "extract"}
	file := job.Handlers{File: "/in/*"}
	hook := job.Handlers{}
	end := `{"task":"01K9XA7F3BQZ8M4T2VJ6C0DPRN","job":"extract","state":"error","reason":"timeout"}`
	m := Message{Subject: "orders.eu.created", Stream: "ORDERS", Sequence: 7, Stored: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Headers: map[string][]string{"From": {"shop", "web"}}}
	for _, c := range []struct {
		on   job.Handlers
		when string
		by   string
		want string
	}{
		{orders, `payload.total > 100`, `{"total":101}`, "yes"},
		{orders, `payload.total > 100`, `{"total":100.5}`, "yes"},
		{orders, `payload.total > 100`, `{"total":100}`, "no"},
		{orders, `payload.total > 100`, `{"total":"many"}`, "on.when: > does not go with a text and a number"},
		{orders, `payload.total > 100`, `{}`, "on.when: > does not go with nothing and a number"},
		{orders, `(payload.total ?? 0) > 100`, `{}`, "no"},
		{orders, `payload.total > 100`, ``, "nothing"},
		{orders, `payload.total > 100`, `7`, "on.when: "},
		{orders, `payload.by.name == "ann"`, `{"by":{"name":"ann"}}`, "yes"},
		{orders, `payload.by.name == "ann"`, `{}`, "on.when: there is no name in nothing"},
		{orders, `payload.by?.name == "ann"`, `{}`, "no"},
		{orders, `payload.id == 9007199254740993`, `{"id":9007199254740993}`, "yes"},
		{orders, `payload.id == 9007199254740993`, `{"id":9007199254740992}`, "no"},
		{orders, `payload.paid`, `{"paid":true}`, "yes"},
		{orders, `payload.paid`, `{"paid":1}`, "on.when: it is a number, want true or false"},
		{orders, `"vip" in payload.tags and len(payload.items) > 1`, `{"tags":["new","vip"],"items":[1,2]}`, "yes"},
		{orders, `payload.at > "2026"`, `{"at":"2026-03-01"}`, "yes"},
		{orders, `date(payload.at) < date("2026-01-01")`, `{"at":"2026-03-01"}`, "no"},
		{orders, `payload.name matches "^[a-c]+$" && lower(payload.name) != "b"`, `{"name":"abc"}`, "yes"},
		{orders, `nats.subject startsWith "orders.eu." and nats.stream == "ORDERS" and nats.sequence < 8`, `{}`, "yes"},
		{orders, `"shop" in nats.headers.From and not ("x" in nats.headers.To)`, `{}`, "yes"},
		{orders, `nats.stored >= date("2026-03-02")`, `{}`, "no"},
		{orders, `true`, `total=1`, "it is not JSON"},
		{after, `payload.reason == "timeout"`, end, "yes"},
		{after, `payload.reason == "timeout"`, `{"state":"finished"}`, "no"},
		{file, `payload.size > 1 and payload.file endsWith ".csv"`, `{"file":"/in/a.csv","size":2}`, "yes"},
		{hook, `payload.ref == "refs/heads/main"`, `{"ref":"refs/heads/main"}`, "yes"},
		{hook, `payload.ref == "refs/heads/main"`, `{"ref":"refs/heads/else"}`, "no"},
		{hook, "", `{"ref":"refs/heads/else"}`, "yes"},
		// What is refused when the job is applied.
		{after, `payload.stat == "error"`, "", "there is no field stat (character 9); payload has task, job, state, reason, message, result"},
		{after, `nats.subject == "x"`, "", "unknown name nats (character 1); an expression is of payload, and the functions len, lower,"},
		{orders, `nats.subjct == "x"`, "", "there is no field subjct"},
		{orders, `nats.sequence == "x"`, "", "== does not go with a number and a text (character 15)"},
		{orders, `total > 100`, "", "unknown name total (character 1); an expression is of nats, payload, and"},
		{orders, `payload.total >`, "", "on.when: "},
		{orders, `7`, "", "it is a number, want true or false"},
		{orders, `any(payload.items, true)`, "", "unknown name any"},
		{orders, `repeat("x", 1000) == "x"`, "", "unknown name repeat"},
		{orders, `let a = payload.x + payload.x; a == "x"`, "", "on.when: a condition has no variables"},
		{orders, `date("soon") > date(payload.at)`, "", `on.when: "soon" is no date`},
		{orders, strings.Repeat("payload.n > 1 and ", 100) + "true", "", "exceeds maximum"},
	} {
		c.on.When = c.when
		of := job.Job{Name: "ship", Spec: job.Spec{On: &c.on}}
		got := "yes"
		err := Compiles(&of)
		if err == nil {
			_, err = Triggered(&of, []byte(c.by), m)
		}
		switch {
		case errors.Is(err, ErrUnmet):
			got = "no"
		case err != nil:
			got = err.Error()
		}
		if got != c.want && (err == nil || !strings.Contains(got, c.want)) {
			t.Errorf("%.80s of %s: %s, want %s", c.when, c.by, got, c.want)
		}
	}
}
