package schedule

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"millrace/task/job"
	"millrace/task/value"
)

func TestTimeline(t *testing.T) {
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	plans := map[string]*Plan{}
	for name, s := range map[string]job.Schedule{
		"minute": {Every: value.Duration(time.Minute)}, "noon": {Cron: "0 12 * * *", Timezone: "Europe/Berlin"},
		"both": {Every: value.Duration(2 * time.Minute)}, "over": {At: "2026-01-01 12:00"},
	} {
		plan, err := Compile(name, s, begin)
		if err != nil {
			t.Fatal(err)
		}
		plans[name] = plan
	}
	names := func(until time.Time, most int) (got []string) {
		for _, u := range Timeline(plans, begin, until, most) {
			got = append(got, fmt.Sprint(u.Name, " ", u.Due.UTC().Format("15:04")))
		}
		return got
	}
	if got, want := names(time.Time{}, 4), []string{"minute 12:01", "both 12:02", "minute 12:02", "minute 12:03"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := names(begin.Add(2*time.Minute), 100), []string{"minute 12:01", "both 12:02", "minute 12:02"}; !slices.Equal(got, want) {
		t.Errorf("until two past: got %v, want %v", got, want)
	}
	if got := names(begin.Add(24*time.Hour), 5000); !slices.Contains(got, "noon 11:00") || len(got) != 1440+720+1 || !slices.IsSortedFunc(Timeline(plans, begin, begin.Add(24*time.Hour), 5000), func(a, b Upcoming) int { return a.Due.Compare(b.Due) }) {
		t.Errorf("of a day there are %d", len(got))
	}
	if got := Timeline(nil, begin, time.Time{}, 5); got == nil || len(got) > 0 {
		t.Errorf("of no schedules there is %v", got)
	}
}
