package schedule

import (
	"strings"
	"testing"
	"time"

	"millrace/task/birth"
	"millrace/task/job"
)

// Days of January 2026, which begins on a Thursday, as Vixie's cron and cronie choose them.
func TestBothDayFields(t *testing.T) {
	for _, c := range []struct {
		cron   string
		want   int
		remark string
		older  int // by the rule before DaysAsCron
	}{
		{"0 0 1-7 * */7", 1, "*/7 begins with *: a day must match both", 10},
		{"0 9 */2 * 1-5", 11, "*/2 begins with *: a day must match both", 27},
		{"0 9 */1 * 1", 4, "", 4},
		{"0 9 * * 1", 4, "", 4},
		{"0 9 ? * 1", 4, "", 4},
		{"0 9 1-7 * *", 7, "", 7},
		{"0 9 1-7 * ?", 7, "", 7},
		{"0 0 9 */2 * 1-5", 11, "*/2 begins with *", 27},
		{"0 9 */40 * 4", 1, "*/40 begins with *", 5},
		{"0 9 *,1 * 1", 4, "*,1 begins with *", 4},
		{"0 9 1,* * 1", 31, "a day that matches either counts, as in cron", 4},
		{"0 9 */2,16 * mon", 2, "*/2,16 begins with *", 19},
		{"0 9 1-31/2 * 1-5", 27, "a day that matches either counts, as in cron", 27},
		{"0 9 13 * fri", 6, "a day that matches either counts, as in cron", 6},
		{"0 9 L * fri", 6, "a day that matches either counts, as in cron", 6},
		{"0 9 H * */2", 0, "*/2 begins with *", 0},
		{"@weekly", 4, "", 4},
		{"@midnight", 31, "", 31},
		{"@annually", 1, "", 1},
	} {
		d := Definition{Name: "nightly", When: job.Schedule{Cron: c.cron}, Make: birth.Submission{Job: "x"}}
		from, until := at(t, "2025-12-31T23:59:59Z"), at(t, "2026-01-31T23:59:59Z")
		old, err := d.Plan()
		if err != nil {
			t.Fatal(err)
		}
		d.Ruled()
		p, err := d.Plan()
		if err != nil {
			t.Fatal(err)
		}
		if ticks, _ := p.Between(from, until, 100); len(ticks) != c.want && !strings.Contains(c.cron, "H") {
			t.Errorf("%s has %d ticks, want %d", c.cron, len(ticks), c.want)
		}
		if is := p.Remark(); is != c.remark && (c.remark == "" || !strings.Contains(is, c.remark)) {
			t.Errorf("%s: remark %q, want %q", c.cron, is, c.remark)
		}
		if ticks, _ := old.Between(from, until, 100); len(ticks) != c.older && !strings.Contains(c.cron, "H") {
			t.Errorf("%s had %d ticks, want %d", c.cron, len(ticks), c.older)
		}
		if is := old.Remark(); c.older != c.want && c.older > c.want && !strings.Contains(is, "store it again") {
			t.Errorf("%s, stored before: remark %q", c.cron, is)
		}
	}
}

func TestReboot(t *testing.T) {
	for _, cron := range []string{"@reboot", "@Reboot"} {
		if err := Validate("a", job.Schedule{Cron: cron}); err == nil || !strings.Contains(err.Error(), "millrace run JOB") {
			t.Errorf("%s: %v", cron, err)
		}
	}
	if err := Validate("a", job.Schedule{Cron: "@noon"}); err == nil || !strings.Contains(err.Error(), "@midnight") {
		t.Errorf("@noon: %v", err)
	}
}

// A schedule of which nothing will ever come is refused, and says what makes it empty.
func TestNever(t *testing.T) {
	now := at(t, "2026-06-10T12:00:00Z")
	for _, c := range []struct {
		when job.Schedule
		want string // "" if something comes
	}{
		{job.Schedule{At: "2020-01-01 12:00"}, "at is 2020-01-01 12:00, which has passed"},
		{job.Schedule{At: "2026-06-10T12:00:00Z"}, "at is 2026-06-10T12:00:00Z, which has passed"},
		{job.Schedule{At: "2026-06-10 13:59", Timezone: "Europe/Berlin"}, "which has passed"},
		{job.Schedule{At: "2026-06-10 14:01", Timezone: "Europe/Berlin"}, ""},
		{job.Schedule{At: "2026-07-01", Start: "2026-08-01"}, "at is 2026-07-01, which is before start (2026-08-01)"},
		{job.Schedule{At: "2026-08-01", End: "2026-07-01"}, "at is 2026-08-01, which is after end (2026-07-01)"},
		{job.Schedule{At: "2026-12-25 09:00", Calendar: []string{"12-24..12-26"}}, "calendar leaves out every planned run"},
		{job.Schedule{Cron: "0 3 * * *", End: "2020-01-01"}, "end is 2020-01-01, which has passed"},
		{job.Schedule{Every: 3600e9, End: "2020-01-01"}, "end is 2020-01-01, which has passed"},
		{job.Schedule{Cron: "0 3 * * *", Start: "2026-06-11 04:00", End: "2026-06-11 05:00"}, "end is 2026-06-11 05:00, before the first planned run (2026-06-12 03:00:00)"},
		{job.Schedule{Cron: "0 3 * * *", End: "2026-06-10 23:00"}, "before the first planned run (2026-06-11 03:00:00)"},
		{job.Schedule{Cron: "0 3 * * *", End: "2026-06-11 03:00"}, ""},
		{job.Schedule{Every: 3600e9, End: "2026-06-10 12:30"}, "end is 2026-06-10 12:30, before the first planned run"},
		{job.Schedule{Every: 3600e9, Start: "2026-06-11", End: "2026-06-11"}, ""},
		{job.Schedule{Cron: "0 0 * * *", Calendar: []string{"mon-sun"}}, "calendar leaves out every planned run"},
		{job.Schedule{Every: 60e9, Calendar: []string{"00:00-24:00"}}, "calendar leaves out every planned run"},
		{job.Schedule{Cron: "0 9 * * mon,"}, `cron is "0 9 * * mon,": field 5 (day of week) is "mon,": want something on both sides of each comma`},
		{job.Schedule{Cron: "0 0 9 1,,15 * *"}, "field 4 (day of month)"},
		{job.Schedule{Cron: "0 9 *-5 * 1"}, `field 3 (day of month) is "*-5": want * alone, or with a step, as in */5`},
		{job.Schedule{Cron: "0 9 1,?-5 * *"}, "want * alone"},
		{job.Schedule{Cron: "+1 9 * * *"}, `field 1 (minute) is "+1": want 0 to 59`},
		{job.Schedule{Cron: "0 9 */2,15,L-2 * ?/2"}, ""},
		{job.Schedule{Cron: "H H(0-5) 15W,LW * tue#2,fri#L"}, ""},
		{job.Schedule{Cron: "@daily"}, ""},
		{job.Schedule{Cron: "0 3 * * sat", Calendar: []string{"sat,sun"}}, "calendar leaves out every planned run"},
		{job.Schedule{Cron: "0 3 * * sat", Calendar: []string{"2026-06-13"}}, ""},
		{job.Schedule{Cron: "0 3 * * sat", Calendar: []string{"2026-06-13"}, End: "2026-06-14"}, "calendar leaves out every planned run"},
	} {
		d := Definition{Name: "a", When: c.when, Make: birth.Submission{Job: "x"}}
		if err := d.Validate(); err != nil {
			t.Errorf("%+v: %v", c.when, err)
			continue
		}
		_, changed, err := d.Over(nil, now)
		switch {
		case c.want == "" && (err != nil || !changed):
			t.Errorf("%+v: %v", c.when, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%+v: %v, want %s", c.when, err, c.want)
		}
	}
}

// What is stored already stays, also when nothing comes of it any more.
func TestOver(t *testing.T) {
	now, then := at(t, "2026-06-10T12:00:00Z"), at(t, "2026-01-10T12:00:00Z")
	is := Definition{Name: "a", When: job.Schedule{At: "2026-02-01"}, Make: birth.Submission{Job: "a"}, OfJob: true}
	stored, changed, err := is.Over(nil, then)
	if err != nil || !changed || !stored.Since.Equal(then) || !stored.Anchor.Equal(then) {
		t.Fatalf("%+v, %t, %v", stored, changed, err)
	}
	if again, changed, err := is.Over(&stored, now); err != nil || changed || !again.Since.Equal(then) {
		t.Errorf("again: %+v, %t, %v", again, changed, err)
	}
	resumed := stored
	resumed.Paused = &Pause{At: then.Add(time.Hour)}
	resumed = resumed.Resumed(then.Add(2 * time.Hour))
	if _, changed, err := is.Over(&resumed, now); err != nil || changed {
		t.Errorf("again, after a pause: %t, %v", changed, err)
	}
	other := is
	other.Make.Priority = 9
	if _, _, err := other.Over(&stored, now); err == nil {
		t.Error("a changed one of which nothing comes is stored")
	}
	days := Definition{Name: "a", When: job.Schedule{Cron: "0 0 1-7 * */7"}, Make: birth.Submission{Job: "a"}}
	older := days
	older.Anchor, older.Since = then, then
	if next, changed, err := days.Over(&older, now); err != nil || !changed || next.Rules != DaysAsCron {
		t.Errorf("stored by the rule before: %+v, %t, %v", next, changed, err)
	}
	if _, changed, err := days.Over(&Definition{Name: "a", When: days.When, Make: days.Make, Rules: DaysAsCron, Anchor: then, Since: then}, now); err != nil || changed {
		t.Errorf("stored by the present rule: %t, %v", changed, err)
	}
	mine := Definition{Name: "a", When: job.Schedule{Cron: "@daily"}, Make: birth.Submission{Job: "b"}}
	if _, _, err := mine.Over(&stored, now); err == nil || !strings.Contains(err.Error(), "came with job a") {
		t.Errorf("over that of a job: %v", err)
	}
	jobs := Definition{Name: "a", When: job.Schedule{Cron: "@daily"}, Make: birth.Submission{Job: "a"}, OfJob: true}
	if _, _, err := jobs.Over(&mine, now); err == nil || !strings.Contains(err.Error(), "did not come with job a") {
		t.Errorf("that of a job over another: %v", err)
	}
	same := jobs
	same.OfJob = false
	if next, changed, err := jobs.Over(&same, now); err != nil || !changed || !next.OfJob {
		t.Errorf("that of a job over the same by hand: %v", err)
	}
}

// Several schedules of a job have names of their own.
func TestOfJob(t *testing.T) {
	daily := job.Schedule{Cron: "@daily"}
	names := func(j job.Job) (all []string) {
		for _, d := range OfJob(&j) {
			all = append(all, d.Name)
		}
		return all
	}
	several := job.Job{Name: "b", Timetable: []job.NamedSchedule{{Schedule: daily}, {Name: "sat", Schedule: daily}, {Schedule: daily}}}
	if is := strings.Join(names(several), " "); is != "b sat b-3" {
		t.Errorf("names are %s", is)
	}
	if is := strings.Join(names(job.Job{Name: "b", Schedule: &daily}), " "); is != "b" {
		t.Errorf("the name is %s", is)
	}
	for want, j := range map[string]job.Job{
		"":                                      several,
		"timetable[1].name is b, that of":       {Name: "b", Timetable: []job.NamedSchedule{{Schedule: daily}, {Name: "b", Schedule: daily}}},
		"timetable[1].cron and":                 {Name: "b"},
		"schedule and timetable are both set":   {Name: "b", Schedule: &daily, Timetable: several.Timetable},
		"timetable[0].name: ":                   {Name: "b", Timetable: []job.NamedSchedule{{Name: "a b", Schedule: daily}}},
		"timetable[1].cron is":                  {Name: "b", Timetable: []job.NamedSchedule{{Schedule: daily}, {Schedule: job.Schedule{Cron: "x"}}}},
		"timetable has 101 items, want at most": {Name: "b", Timetable: make([]job.NamedSchedule, 101)},
	} {
		if err := ValidateOfJob(&j, "timetable", nil); err == nil && want != "" && j.AllSchedules() != nil || err != nil && (want == "" || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
