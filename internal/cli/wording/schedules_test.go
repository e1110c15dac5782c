package wording

import (
	"testing"
	"time"

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
