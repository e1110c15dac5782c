package wording

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"millrace/history/replay"
	"millrace/projections/view"
	"millrace/task"
)

// Whoever steps through a log reads all its times on one clock, except for those that people and
// programs have written.
func TestStepsOnOneClock(t *testing.T) {
	zone, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	was := time.Local
	time.Local = zone
	defer func() { time.Local = was }()
	at := time.Date(2026, 3, 1, 17, 0, 0, 0, time.UTC)
	const stamp = `"2026-03-01T17:00:00Z"`
	f := &replay.Frame{
		Owed: &replay.Owed{Of: "task x", After: &replay.Duty{Who: "operator", What: "start a worker; waiting since 2026-03-01T17:00:00Z", By: at, Else: "it ends at 2026-03-01T17:00:00Z"}},
		Changed: changed("since", stamp, "hold.until", stamp, "reason", `"not started by 2026-03-01T17:00:00Z"`,
			"params.from", stamp, "result", `{"at":"2026-03-01T17:00:00Z"}`),
		Stop:     &replay.Stop{Why: "late: due at 2026-03-01T17:00:00Z", Seqs: []uint64{5, 7}},
		Decision: &replay.Decision{By: &task.By{Seen: 1, Drawn: 0.5}},
	}
	text := strings.Join(Point(f, PointTime), "\n")
	if n := strings.Count(text, "2026-03-01T17:00:00Z"); n != 2 || strings.Count(text, "2026-03-01 12:00:00") != 7 || !strings.Contains(text, "see #5 #7") {
		t.Errorf("%d times are in UTC in\n%s", n, text)
	}
}

// A claim of a task that did not wait says nothing of how it was decided: so there is no heading.
func TestNothingDecided(t *testing.T) {
	if head, below := Decided(&replay.Decision{}); head != "" || below != nil {
		t.Errorf("%q, %q", head, below)
	}
	if head, _ := Decided(&replay.Decision{By: &task.By{Drawn: 0.5}}); head != "decided" {
		t.Errorf("%q", head)
	}
	if head, _ := Decided(&replay.Decision{Rule: "duty"}); head != "decided by rule duty" {
		t.Errorf("%q", head)
	}
}

func changed(pairs ...string) (all []replay.Changed) {
	for i := 0; i+1 < len(pairs); i += 2 {
		all = append(all, replay.Changed{Change: view.Change{Field: pairs[i], Is: json.RawMessage(pairs[i+1])}})
	}
	return all
}
