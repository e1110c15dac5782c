package wording

import (
	"strings"
	"testing"
	"time"

	"millrace/task"
	"millrace/task/value"
)

// A row of a step says what it gave, why it failed, or what is waited for.
func TestStepColumns(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	d := &task.Durable{
		Steps: []task.Step{
			{Kind: task.StepID, Result: []byte(`"x"`), At: now},
			{Name: "charge", Kind: task.StepDo, Error: "busy", Tries: 2, Open: true, At: now, Took: value.Duration(time.Second)},
		},
		Parked: &task.Parked{Park: task.Park{Step: "charge", Kind: task.StepDo, Until: now.Add(time.Hour)}, Since: now},
	}
	columns := StepColumns(now)
	row := func(k *task.Taken) string {
		var cells []string
		for _, c := range columns {
			cells = append(cells, c.Filed(k))
		}
		return strings.Join(cells, "|")
	}
	again := Clock(now.Add(time.Hour))
	for i, want := range []string{
		`1|id|id|done|||2026-03-01T12:00:00Z|"x"`,
		"2|charge|step|failed, and is tried again|2|1s|2026-03-01T11:59:59Z|busy; again at " + again,
	} {
		if got := row(&d.Taken()[i]); got != want {
			t.Errorf("step %d is %q, want %q", i+1, got, want)
		}
	}
	waits := &task.Durable{Parked: &task.Parked{Park: task.Park{Step: "yes", Kind: task.StepAwait}, Since: now.Add(-time.Minute)}}
	if got := row(&waits.Taken()[0]); got != "1|yes|await|waits||1m00s|2026-03-01T11:59:00Z|for as long as it takes" {
		t.Errorf("a wait is %q", got)
	}
}
