package wording

import (
	"testing"
	"time"

	"millrace/task"
	"millrace/task/job"
	"millrace/task/value"
)

func TestPlanned(t *testing.T) {
	for cron, want := range map[string]string{
		"0 3 * * *": "every day at 03:00", "30 22 * * 1-5": "Monday to Friday at 22:30", "5 4 * * 7": "every Sunday at 04:05", "*/15 * * * *": "every 15 minutes",
		"7 * * * *": "every hour at minute 7", "*/7 * * * *": "*/7 * * * *", "0 3 1 * *": "0 3 1 * *", "0 3 * * 1,3": "0 3 * * 1,3", "H 3 * * *": "H 3 * * *",
		"0 */2 * * *": "0 */2 * * *", "5 * * * 1": "5 * * * 1", "@daily": "@daily", "0 0 3 * * *": "0 0 3 * * *",
		"0 3 * * 8": "0 3 * * 8", "5 4 * * 0": "every Sunday at 04:05", "*/15 9 * * *": "*/15 9 * * *", "0 3 * 1 *": "0 3 * 1 *",
	} {
		if got := Planned(&job.Schedule{Cron: cron}); got != want {
			t.Errorf("%s is %q, want %q", cron, got, want)
		}
	}
	for every, want := range map[time.Duration]string{5 * time.Minute: "every 5m", 2 * time.Hour: "every 2h", 90 * time.Second: "every 1m30s", 10 * time.Second: "every 10s"} {
		if got := Planned(&job.Schedule{Every: value.Duration(every)}); got != want {
			t.Errorf("%v is %q, want %q", every, got, want)
		}
	}
	if got := Planned(&job.Schedule{At: "2026-03-01T03:00:00Z"}); got != "at 2026-03-01T03:00:00Z" {
		t.Errorf("once is %q", got)
	}
}

// Facts of schedules speak of planned runs, as pages do.
func TestPlannedRuns(t *testing.T) {
	at := time.Date(2026, 3, 4, 3, 0, 0, 0, time.UTC)
	for got, want := range map[string]string{
		scheduleFact(task.ScheduleFired{Tick: at}):                                       "planned for 2026-03-04T03:00:00Z",
		scheduleFact(task.ScheduleSkipped{Tick: at, Reason: task.SkipOverlap}):           "planned for 2026-03-04T03:00:00Z; overlap",
		scheduleFact(task.ScheduleSkipped{Tick: at, Until: at.Add(time.Hour), Count: 2}): "2 planned runs from 2026-03-04T03:00:00Z to 2026-03-04T04:00:00Z",
		originText(task.Origin{Schedule: "nightly", Tick: at}):                           "schedule nightly, planned for 2026-03-04T03:00:00Z",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
