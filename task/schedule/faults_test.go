package schedule_test

import (
	"strings"
	"testing"

	"millrace/task/job"
	"millrace/task/schedule"
	"millrace/task/value"
)

// Every fault of a schedule is reported, whatever else is wrong.
func TestAllFaults(t *testing.T) {
	err := schedule.Validate("x", job.Schedule{
		Cron: "61 * * * *", Timezone: "Nowhere", Start: "never", End: "2026-13-01", CatchUp: "sometimes", Overlap: "maybe", DST: "never",
		Jitter: -1, Spread: -1, CatchUpWindow: -1, Depth: -1, PauseAfter: -1, Calendar: []string{"always", "never"},
	})
	faults := value.FaultsOf(err)
	fields := []string{"catchup ", "overlap ", "dst ", "jitter ", "spread ", "catchup_window ", "depth ", "pause_after ", "timezone ", "start ", "end ", "calendar: ", "calendar: ", "cron "}
	if len(faults) != len(fields) {
		t.Fatalf("%d faults, want %d: %v", len(faults), len(fields), err)
	}
	for i, field := range fields {
		if !strings.HasPrefix(faults[i].Error(), field) {
			t.Errorf("fault %d is %v, want one of %s", i+1, faults[i], field)
		}
	}
	for name, c := range map[string]struct {
		s    job.Schedule
		want string
	}{
		"none is set":      {job.Schedule{}, "cron, every and at are all missing"},
		"several are set":  {job.Schedule{Cron: "* * * * *", At: "2026-01-01"}, "only one of them"},
		"the end is early": {job.Schedule{Cron: "* * * * *", Start: "2026-01-02", End: "2026-01-01"}, "before start"},
		"the start is bad": {job.Schedule{Cron: "* * * * *", Start: "x", End: "2026-01-01"}, "start is"},
	} {
		if err := schedule.Validate("x", c.s); len(value.FaultsOf(err)) != 1 || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
