package job

import (
	"testing"
	"time"

	"millrace/events/jet/definitions"
	"millrace/internal/cli/connect"
	"millrace/internal/testkit"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/schedule"
	"millrace/task/value"
)

func TestJobTable(t *testing.T) {
	jobs := []client.JobRow{{
		StoredJob: definitions.StoredJob{
			Job:      job.Job{Name: "hello", Title: "Say hello", Labels: map[string]string{"team": "a"}, Spec: job.Spec{Run: &job.Run{Argv: []string{"echo", "hello"}}}},
			Revision: 3, Changed: noon.Add(-5 * time.Minute),
		},
		Schedules: []string{"hello", "hourly"}, Next: noon.Add(20 * time.Minute), Last: &client.Run{State: task.Error, Reason: value.Exit, Since: noon.Add(-2 * time.Hour)},
	}, {
		StoredJob: definitions.StoredJob{Job: job.Job{Name: "resize", Queue: "images", Spec: job.Spec{Handler: "resize"}}, Revision: 12, Changed: noon.AddDate(0, 0, -9)},
		Last:      &client.Run{State: task.Running, Since: noon.Add(-40 * time.Second)},
	}}
	testkit.Table(t, "job_ls", jobList.Table(jobs, present), 0, false)
	testkit.Table(t, "job_ls_80", jobList.Table(jobs, present), 80, false)
}

func TestScheduleTable(t *testing.T) {
	row := func(name string, when job.Schedule, last *client.Run, decided time.Time, skipped map[string]int) client.ScheduleRow {
		stored := schedule.Stored{Definition: schedule.Definition{Name: name, When: when, Make: birth.Submission{Job: "backup"}, Since: noon.Add(-time.Hour), Anchor: noon.Add(-time.Hour)}}
		return client.NewScheduleRow(stored, last, decided, skipped, noon)
	}
	paused := row("tidy", job.Schedule{Every: value.Duration(time.Minute)}, nil, noon, nil)
	paused.Paused, paused.Next = &schedule.Pause{Reason: "enough of it"}, nil
	rows := []client.ScheduleRow{
		row("late", job.Schedule{Every: value.Duration(time.Minute)}, &client.Run{State: task.Running, Since: noon.Add(-5 * time.Minute)}, noon.Add(-5*time.Minute), nil),
		row("nightly", job.Schedule{Cron: "30 2 * * *", Timezone: "Europe/Berlin"}, &client.Run{State: task.Error, Reason: value.Exit, Since: noon.Add(-9 * time.Hour)},
			noon, map[string]int{task.SkipOverlap: 2, task.SkipMissed: 1}),
		paused,
	}
	if got := rows[0].Undecided; got != 4 { // the tick of this moment is in time
		t.Errorf("%d ticks are undecided, want 4", got)
	}
	testkit.Table(t, "schedule_ls", scheduleList.Table(rows, present), 0, false)
	testkit.Table(t, "schedule_ls_80", scheduleList.Table(rows, present), 80, false)
}

// noon is now in these tests.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

var present = &connect.Sight{Now: func() time.Time { return noon }}
