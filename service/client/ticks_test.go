package client

import (
	"errors"
	"slices"
	"testing"
	"time"

	"millrace/task"
	"millrace/task/job"
	"millrace/task/schedule"
)

// Ticks get their tasks oldest first, and no more than fit beside the unfinished ones.
func TestLacking(t *testing.T) {
	t.Parallel()
	first := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	var ticks []schedule.Tick
	for i := range 6 {
		ticks = append(ticks, schedule.Tick{At: first.AddDate(0, 0, i)})
	}
	ends := map[task.ID]task.End{}
	for i, state := range map[int]task.State{1: task.Finished, 2: task.Running, 5: task.Held} {
		ends[schedule.TaskID("nightly", ticks[i].At)] = task.End{State: state}
	}
	is := Filled("nightly", ticks, ends)
	if is.Ticks != 6 || is.Missing != 3 || is.Open != 2 || is.States["running"] != 1 || is.States["finished"] != 1 || !is.First.Equal(first) || !is.Last.Equal(ticks[5].At) {
		t.Errorf("it is %+v", is)
	}
	for name, c := range map[string]struct {
		parallel, most int
		want           []int
	}{
		"all":                    {0, 1000, []int{0, 3, 4}},
		"so many at most":        {0, 2, []int{0, 3}},
		"room for one":           {3, 1000, []int{0}},
		"no room":                {2, 1000, nil},
		"more are open than may": {1, 1000, nil},
	} {
		var got []int
		for _, l := range Lacking("nightly", ticks, ends, c.parallel, c.most) {
			got = append(got, slices.IndexFunc(ticks, func(t schedule.Tick) bool { return t.At.Equal(l.At) }))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// Times without a zone are in the schedule's; a backfill must be in the past, and have an end.
func TestBackfillTicks(t *testing.T) {
	t.Parallel()
	of := schedule.Stored{Definition: schedule.Definition{Name: "nightly", When: job.Schedule{Cron: "30 2 * * *", Timezone: "Europe/Vienna"}}}
	now := time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		from, to string
		most     int
		want     int
		wrong    bool
	}{
		{from: "2026-03-07", most: 10, want: 3},
		{from: "2026-03-07 02:30", to: "2026-03-08 02:30", most: 10, want: 2},
		{from: "2026-03-07T01:31:00Z", to: "2026-03-08", most: 10},
		{from: "2026-03-01", to: "2027-01-01", most: 10, want: 9},
		{from: "2026-03-01", most: 8, wrong: true},
		{from: "2026-03-08", to: "2026-03-07", most: 10, wrong: true},
		{from: "2026-03-10", most: 10, wrong: true},
		{from: "soon", most: 10, wrong: true},
		{from: "2026-03-01", to: "soon", most: 10, wrong: true},
	} {
		ticks, err := BackfillTicks(&of, &Backfill{From: c.from, To: c.to}, now, c.most)
		if c.wrong != errors.Is(err, ErrInvalid) || !c.wrong && (err != nil || len(ticks) != c.want) {
			t.Errorf("%s to %q: %v, %v; want %d", c.from, c.to, ticks, err, c.want)
		}
	}
}
