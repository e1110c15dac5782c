package replay

import (
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/value"
)

func TestExpressions(t *testing.T) {
	at := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	k := task.Task{ID: "01JD6Z8V3M0QK4T7W2X9Y5AB0A", State: task.Error, Reason: "exit", Attempt: 3, Ran: value.Duration(2 * time.Second)}
	k.Spec = &job.Spec{Handler: "resize", Retry: job.Retry{Max: 2}}
	k.Spec.Timeout.Run = value.Duration(time.Minute)
	k.Job, k.Labels, k.Since = "crawl", map[string]string{"team": "a"}, at
	was := k
	was.State = task.Running
	r := events.Record{Seq: 41, Stored: at.Add(time.Hour), Kind: events.KindChain, Raw: []byte(`{"type":"attempt.failed","class":"exit"}`),
		Fact: events.Fact{Type: events.AttemptFailed, Task: k.ID, Actor: "n1", At: at, By: &task.By{Seen: 40, Rule: "own"}, Event: task.AttemptFailed{}}}
	for _, c := range []struct {
		text string
		want string // yes, no, or a part of the error
	}{
		{`type == "attempt.failed" && seq > 40`, "yes"},
		{`task.state == "error" and was.state == "running"`, "yes"},
		{`task.state == "finished"`, "no"},
		{`task.id endsWith "B0A"`, "yes"},
		{`task.labels.team == "a"`, "yes"},
		{`task.labels.other == "a"`, "no"},
		{`task.spec.timeout.run == duration("1m")`, "yes"},
		{`task.ran > duration("1s")`, "yes"},
		{`task.attempt > task.spec.retry.max`, "yes"},
		{`now() - task.since > duration("59m")`, "yes"},
		{`by.seen < seq and by.rule == "own"`, "yes"},
		{`fact.class == "exit"`, "yes"},
		{`fact.nothing == "exit"`, "no"},
		{`node.state == "ready"`, "no"},
		{`task.attmpt > 1`, `there is no field "attmpt": did you mean attempt?`},
		{`tsk.attempt > 1`, "unknown name tsk"},
		{`task.attempt`, "it is a number, want true or false"},
		{`date(task.since) > now()`, "date takes a text, not a time (character 11)"},
		{`date("soon") > now()`, `"soon" is no date, such as 2026-03-01 or 2026-03-01T12:00:00Z (character 6)`},
		{`date("2026-03-01 12:00:00.5") < now()`, "yes"},
		{`task.ran > duration("5 s")`, `"5 s" is no duration, such as 90s or 2h30m (character 21)`},
		{`task.since > "2026-03-01"`, "> does not go with a time and a text (character 12)"},
		{`task.state == 3`, "== does not go with a text and a number (character 12)"},
		{`lower(task.attempt) == "x"`, "lower takes a text, not a number (character 12)"},
		{`len(seq) > 1`, "len does not take a number (character 1)"},
		{`not seq`, "not does not go with a number (character 1)"},
		{`task.spec == "x"`, "== does not go with a spec and a text (character 11)"},
		{`fact.class > 3`, "> does not go with a text and a number (character 12)"},
		{`date(fact.seen) > now()`, "it is nothing, want a text (character 1)"},
		{`count(task.labels)`, "count takes a list, not a mapping (character 12)"},
		{`task.attempt ? true : false`, "the condition is a number, want true or false (character 6)"},
		{`type matches "["`, "it is no regular expression (RE2): missing closing ]: `[` (character 6)"},
		{`any(fact.seen, true)`, "it is nothing, want a list (character 1)"},
		{`[1, 2][5] == 1`, "there is no value 5 in a list of 2 (character 7)"},
		{`seq % 0 == 1`, "one cannot divide by zero (character 5)"},
		{`now == 3`, "== does not go with a function and a number (character 5)"},
		{`seq > 1e999`, `"1e999" is no number here (character 11)`},
		{`task.labels[3] == ""`, "a number is no key of a mapping (character 13)"},
		{`exec("ls")`, "unknown name exec"},
		{`len(filter(task.labels, true)) > 0`, "unknown name filter (character 5); an expression is of seq, type,"},
		{`was.spec.retry.max == 2`, "yes"},
		{strings.Repeat("seq > 1 and ", 200) + "true", "exceeds maximum"},
	} {
		e, err := compile(c.text, true)
		have := ""
		if err == nil {
			var value any
			if value, err = e.eval(e.see(&r, view.Item{Task: &was}, view.Item{Task: &k})); err == nil {
				have = map[bool]string{true: "yes", false: "no"}[value.(bool)]
			}
		}
		if err != nil {
			have = err.Error()
		}
		if have != c.want && (err == nil || !strings.Contains(have, c.want)) {
			t.Errorf("%.80s: %s, want %s", c.text, have, c.want)
		}
	}
}

func TestExpressionOfNothing(t *testing.T) {
	e, err := compile(`task.spec.retry.max == 2`, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.eval(e.see(&events.Record{Kind: events.KindNode}, view.Item{}, view.Item{})); err == nil || !strings.Contains(err.Error(), "cannot get") {
		t.Errorf("%v", err)
	}
}
