package schedule

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/task"
	"millrace/task/job"
	"millrace/task/value"
)

func plan(t testing.TB, s job.Schedule) *Plan {
	t.Helper()
	p, err := Compile("nightly", s, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	if err != nil {
		t.Fatalf("%+v: %v", s, err)
	}
	return p
}

func at(t testing.TB, s string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// The instants were computed by hand from the tables of the zones.
func TestNext(t *testing.T) {
	for _, c := range []struct {
		name  string
		s     job.Schedule
		after string
		want  []string // "instant" or "instant|part of the note"
	}{
		{"five fields", job.Schedule{Cron: "30 4 * * *"}, "2026-01-01T04:30:00Z", []string{"2026-01-02T04:30:00Z", "2026-01-03T04:30:00Z"}},
		{"six fields", job.Schedule{Cron: "*/20 59 23 * * *"}, "2026-01-01T23:59:39Z", []string{"2026-01-01T23:59:40Z", "2026-01-02T23:59:00Z"}},
		{"every hour since a thousand years", job.Schedule{Every: value.Duration(time.Hour), Start: "1026-01-01T00:00:00Z"}, "2026-01-01T00:00:00Z", []string{"2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z"}},
		{"from within the last millisecond", job.Schedule{Every: value.Duration(time.Hour), Start: "1026-01-01T00:00:00Z"}, "2026-01-01T00:59:59.9999995Z", []string{"2026-01-01T01:00:00Z"}},
		{"every hour from far away on", job.Schedule{Every: value.Duration(time.Hour), Start: "3026-01-01T00:00:00Z"}, "2026-01-01T00:00:00Z", []string{"3026-01-01T00:00:00Z", "3026-01-01T01:00:00Z"}},
		{"@hourly", job.Schedule{Cron: "@hourly"}, "2026-01-01T23:00:00Z", []string{"2026-01-02T00:00:00Z"}},
		{"@daily in Kolkata", job.Schedule{Cron: "@daily", Timezone: "Asia/Kolkata"}, "2026-03-28T00:00:00Z", []string{"2026-03-28T18:30:00Z", "2026-03-29T18:30:00Z"}},
		{"@yearly", job.Schedule{Cron: "@yearly"}, "2026-01-01T00:00:00Z", []string{"2027-01-01T00:00:00Z"}},
		{"names and ranges", job.Schedule{Cron: "0 9 * jan,MAR mon-fri"}, "2026-01-30T10:00:00Z", []string{"2026-03-02T09:00:00Z"}},
		{"a range with steps", job.Schedule{Cron: "10-40/15 0 * * *"}, "2026-01-01T00:10:00Z", []string{"2026-01-01T00:25:00Z", "2026-01-01T00:40:00Z", "2026-01-02T00:10:00Z"}},
		{"a step beyond its range", job.Schedule{Cron: "*/60 */24 */31 * *"}, "2026-01-01T00:00:00Z", []string{"2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"}},
		{"a step as long as its range", job.Schedule{Cron: "0-4/5,54-54/3 3/24 * * *"}, "2026-01-01T03:00:00Z", []string{"2026-01-01T03:54:00Z", "2026-01-02T03:00:00Z"}},
		{"the last friday, as others spell it", job.Schedule{Cron: "0 0 * * 5L"}, "2026-01-31T00:00:00Z", []string{"2026-02-27T00:00:00Z", "2026-03-27T00:00:00Z"}},
		{"and by its name", job.Schedule{Cron: "0 0 0 * * mon,FriL"}, "2026-02-23T00:00:00Z", []string{"2026-02-27T00:00:00Z", "2026-03-02T00:00:00Z"}},
		{"sunday is 7, too", job.Schedule{Cron: "0 0 * * 7"}, "2026-01-01T00:00:00Z", []string{"2026-01-04T00:00:00Z"}},
		{"either day", job.Schedule{Cron: "0 0 13 * fri"}, "2026-02-01T00:00:00Z", []string{"2026-02-06T00:00:00Z", "2026-02-13T00:00:00Z", "2026-02-20T00:00:00Z"}},
		{"only the weekday", job.Schedule{Cron: "0 0 * * fri"}, "2026-02-07T00:00:00Z", []string{"2026-02-13T00:00:00Z"}},
		{"the last day", job.Schedule{Cron: "0 0 L * *"}, "2026-02-01T00:00:00Z", []string{"2026-02-28T00:00:00Z", "2026-03-31T00:00:00Z"}},
		{"the last but two", job.Schedule{Cron: "0 0 L-2 * *"}, "2028-02-01T00:00:00Z", []string{"2028-02-27T00:00:00Z"}},
		{"the weekday nearest to the 15th", job.Schedule{Cron: "0 0 15W * *"}, "2026-02-01T00:00:00Z", []string{"2026-02-16T00:00:00Z", "2026-03-16T00:00:00Z"}},
		{"the weekday nearest to the 1st", job.Schedule{Cron: "0 0 1W * *"}, "2026-07-02T00:00:00Z", []string{"2026-08-03T00:00:00Z"}},
		{"the last weekday", job.Schedule{Cron: "0 0 LW * *"}, "2026-02-01T00:00:00Z", []string{"2026-02-27T00:00:00Z"}},
		{"the second tuesday", job.Schedule{Cron: "0 0 * * tue#2"}, "2026-01-14T00:00:00Z", []string{"2026-02-10T00:00:00Z"}},
		{"the last friday", job.Schedule{Cron: "0 0 * * fri#L"}, "2026-01-31T00:00:00Z", []string{"2026-02-27T00:00:00Z"}},
		{"a leap day", job.Schedule{Cron: "0 0 29 2 *"}, "2026-01-01T00:00:00Z", []string{"2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"}},
		{"a leap day over 2100", job.Schedule{Cron: "0 0 29 2 *"}, "2096-03-01T00:00:00Z", []string{"2104-02-29T00:00:00Z"}},

		{"Berlin, spring, once", job.Schedule{Cron: "30 2 * * *", Timezone: "Europe/Berlin", DST: "once"}, "2026-03-28T12:00:00Z",
			[]string{"2026-03-29T01:00:00Z|first moment after the gap", "2026-03-30T00:30:00Z"}},
		{"Berlin, spring, by default", job.Schedule{Cron: "30 2 * * *", Timezone: "Europe/Berlin"}, "2026-03-28T12:00:00Z",
			[]string{"2026-03-29T01:00:00Z|dst once", "2026-03-30T00:30:00Z"}},
		{"Berlin, spring, skip", job.Schedule{Cron: "30 2 * * *", Timezone: "Europe/Berlin", DST: "skip"}, "2026-03-28T12:00:00Z",
			[]string{"2026-03-30T00:30:00Z|2026-03-29 02:30:00 does not exist and is left out"}},
		{"Berlin, spring, twice", job.Schedule{Cron: "30 2 * * *", Timezone: "Europe/Berlin", DST: "twice"}, "2026-03-28T12:00:00Z", []string{"2026-03-30T00:30:00Z"}},
		{"Berlin, spring, shift", job.Schedule{Cron: "30 2 * * *", Timezone: "Europe/Berlin", DST: "shift"}, "2026-03-28T12:00:00Z",
			[]string{"2026-03-29T01:30:00Z|fires 1h0m0s later", "2026-03-30T00:30:00Z"}},
		{"Berlin, spring, shift onto another", job.Schedule{Cron: "0 2,3 * * *", Timezone: "Europe/Berlin", DST: "shift"}, "2026-03-28T12:00:00Z",
			[]string{"2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"}},
		{"Berlin, spring, the hour is open", job.Schedule{Cron: "30 * * * *", Timezone: "Europe/Berlin"}, "2026-03-29T00:00:00Z",
			[]string{"2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z"}},
		{"Berlin, autumn, once", job.Schedule{Cron: "30 2 * * *", Timezone: "Europe/Berlin"}, "2026-10-24T12:00:00Z",
			[]string{"2026-10-25T00:30:00Z|fires the first time", "2026-10-26T01:30:00Z"}},
		{"Berlin, autumn, twice", job.Schedule{Cron: "30 2 * * *", Timezone: "Europe/Berlin", DST: "twice"}, "2026-10-24T12:00:00Z",
			[]string{"2026-10-25T00:30:00Z|the first time", "2026-10-25T01:30:00Z|the second time", "2026-10-26T01:30:00Z"}},
		{"Berlin, autumn, skip", job.Schedule{Cron: "30 2 * * *", Timezone: "Europe/Berlin", DST: "skip"}, "2026-10-24T12:00:00Z",
			[]string{"2026-10-25T00:30:00Z|fires the first time", "2026-10-26T01:30:00Z"}},
		{"Berlin, autumn, from within", job.Schedule{Cron: "30 2 * * *", Timezone: "Europe/Berlin"}, "2026-10-25T00:45:00Z", []string{"2026-10-26T01:30:00Z"}},
		{"Berlin, autumn, the hour is open", job.Schedule{Cron: "0 * * * *", Timezone: "Europe/Berlin"}, "2026-10-24T23:30:00Z",
			[]string{"2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z|the second time", "2026-10-25T02:00:00Z"}},
		{"New York, spring, once", job.Schedule{Cron: "0 2 * * *", Timezone: "America/New_York"}, "2026-03-07T12:00:00Z", []string{"2026-03-08T07:00:00Z", "2026-03-09T06:00:00Z"}},
		{"New York, spring, shift", job.Schedule{Cron: "15 2 * * *", Timezone: "America/New_York", DST: "shift"}, "2026-03-07T12:00:00Z", []string{"2026-03-08T07:15:00Z"}},
		{"New York, autumn, twice", job.Schedule{Cron: "30 1 * * *", Timezone: "America/New_York", DST: "twice"}, "2026-10-31T12:00:00Z",
			[]string{"2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z", "2026-11-02T06:30:00Z"}},
		{"Lord Howe, spring, half an hour", job.Schedule{Cron: "15 2 * * *", Timezone: "Australia/Lord_Howe", DST: "shift"}, "2026-10-03T00:00:00Z",
			[]string{"2026-10-03T15:45:00Z|fires 30m0s later", "2026-10-04T15:15:00Z"}},
		{"Lord Howe, spring, once", job.Schedule{Cron: "15 2 * * *", Timezone: "Australia/Lord_Howe"}, "2026-10-03T00:00:00Z", []string{"2026-10-03T15:30:00Z"}},
		{"Lord Howe, spring, after the gap", job.Schedule{Cron: "45 2 * * *", Timezone: "Australia/Lord_Howe", DST: "skip"}, "2026-10-03T00:00:00Z", []string{"2026-10-03T15:45:00Z"}},
		{"Lord Howe, autumn, twice", job.Schedule{Cron: "45 1 * * *", Timezone: "Australia/Lord_Howe", DST: "twice"}, "2026-04-04T00:00:00Z",
			[]string{"2026-04-04T14:45:00Z", "2026-04-04T15:15:00Z", "2026-04-05T15:15:00Z"}},
		{"Sao Paulo, no midnight", job.Schedule{Cron: "0 0 * * *", Timezone: "America/Sao_Paulo"}, "2018-11-03T12:00:00Z", []string{"2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"}},
		{"Sao Paulo, no midnight, skip", job.Schedule{Cron: "0 0 * * *", Timezone: "America/Sao_Paulo", DST: "skip"}, "2018-11-03T12:00:00Z", []string{"2018-11-05T02:00:00Z"}},
		{"Sao Paulo, the last hour twice", job.Schedule{Cron: "30 23 * * *", Timezone: "America/Sao_Paulo", DST: "twice"}, "2018-02-17T12:00:00Z",
			[]string{"2018-02-18T01:30:00Z", "2018-02-18T02:30:00Z", "2018-02-19T02:30:00Z"}},
		{"Apia, a day that was not", job.Schedule{Cron: "0 12 * * *", Timezone: "Pacific/Apia", DST: "skip"}, "2011-12-29T00:00:00Z", []string{"2011-12-29T22:00:00Z", "2011-12-30T22:00:00Z"}},

		{"every", job.Schedule{Every: value.Duration(90 * time.Second)}, "2026-01-01T00:01:00Z", []string{"2026-01-01T00:01:30Z", "2026-01-01T00:03:00Z"}},
		{"every, with a start", job.Schedule{Every: value.Duration(time.Hour), Start: "2026-05-01T00:20:00Z"}, "2026-01-01T00:00:00Z", []string{"2026-05-01T00:20:00Z", "2026-05-01T01:20:00Z"}},
		{"every, over a change of clocks", job.Schedule{Every: value.Duration(24 * time.Hour), Timezone: "Europe/Berlin"}, "2026-03-28T12:00:00Z", []string{"2026-03-29T00:00:00Z", "2026-03-30T00:00:00Z"}},
		{"at", job.Schedule{At: "2026-05-01 08:00", Timezone: "Europe/Berlin"}, "2026-01-01T00:00:00Z", []string{"2026-05-01T06:00:00Z", "never"}},
		{"at, in a gap", job.Schedule{At: "2026-03-29 02:30", Timezone: "Europe/Berlin", DST: "shift"}, "2026-01-01T00:00:00Z", []string{"2026-03-29T01:30:00Z|dst shift"}},
		{"start and end are in", job.Schedule{Cron: "0 * * * *", Start: "2026-05-01 08:00", End: "2026-05-01 09:00"}, "2026-01-01T00:00:00Z", []string{"2026-05-01T08:00:00Z", "2026-05-01T09:00:00Z", "never"}},
		{"a calendar of dates", job.Schedule{Cron: "0 0 * * *", Calendar: []string{"2026-12-24..2026-12-26", "01-01"}}, "2026-12-23T12:00:00Z", []string{"2026-12-27T00:00:00Z|left out by"}},
		{"a calendar over the turn of the year", job.Schedule{Cron: "0 0 * * *", Calendar: []string{"12-24..01-02"}}, "2026-12-23T12:00:00Z", []string{"2027-01-03T00:00:00Z"}},
		{"a calendar of nights", job.Schedule{Every: value.Duration(time.Hour), Calendar: []string{"mon-fri 22:00-06:00"}}, "2026-01-02T21:30:00Z",
			[]string{"2026-01-03T06:00:00Z", "2026-01-03T07:00:00Z"}},
		{"a calendar in a zone", job.Schedule{Cron: "0 * * * *", Timezone: "America/New_York", Calendar: []string{"00:00-24:00 sat,sun"}}, "2026-01-02T22:00:00Z",
			[]string{"2026-01-02T23:00:00Z", "2026-01-03T00:00:00Z", "2026-01-03T01:00:00Z", "2026-01-03T02:00:00Z", "2026-01-03T03:00:00Z", "2026-01-03T04:00:00Z", "2026-01-05T05:00:00Z"}},
		{"a calendar that leaves nothing", job.Schedule{Cron: "0 0 * * *", Calendar: []string{"mon-sun"}}, "2026-01-02T22:00:00Z", []string{"never"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := plan(t, c.s)
			after := at(t, c.after)
			for _, want := range c.want {
				tick, ok := p.Next(after)
				instant, note, _ := strings.Cut(want, "|")
				got := "never"
				if ok {
					got = tick.At.UTC().Format(time.RFC3339)
				}
				if got != instant || !strings.Contains(tick.Note, note) {
					t.Fatalf("after %s comes %s (%q), want %s (%q)", after.Format(time.RFC3339), got, tick.Note, instant, note)
				}
				after = tick.At
			}
		})
	}
}

func TestBadDefinitionsNameTheField(t *testing.T) {
	for want, s := range map[string]job.Schedule{
		"cron, every and at are all missing":          {},
		"cron, every and at: only one":                {Cron: "@daily", At: "2026-01-01"},
		`field 1 (minute) is "60"`:                    {Cron: "60 0 * * *"},
		`field 3 (hour) is "24"`:                      {Cron: "0 0 24 * * *"},
		`field 5 (day of week) is "monn"`:             {Cron: "0 0 * * monn"},
		`"Monday": want 0 to 7 or sun to sat`:         {Cron: "0 9 * * Monday"},
		`"January": want 1 to 12 or jan to dec`:       {Cron: "0 9 * January *"},
		`"0~59": want 0 to 59, and for ~ write H`:     {Cron: "0~59 3 * * *"},
		`"*/x": want 0 to 59, and a step of at least`: {Cron: "*/x * * * *"},
		"with 4 fields":                               {Cron: "0 0 * *"},
		"with 7 fields":                               {Cron: "0 0 0 * * * 2026"},
		"never comes":                                 {Cron: "0 0 30 2 *"},
		"the zone belongs to timezone":                {Cron: "TZ=Asia/Tokyo 0 0 * * *"},
		"an interval belongs to every":                {Cron: "@every 5m"},
		"want @yearly":                                {Cron: "@noon"},
		`timezone is "Mars/Olympus"`:                  {Cron: "@daily", Timezone: "Mars/Olympus"},
		"timezone is Local":                           {Cron: "@daily", Timezone: "Local"},
		`dst is "sometimes"`:                          {Cron: "@daily", DST: "sometimes"},
		`overlap is "wait"`:                           {Cron: "@daily", Overlap: "wait"},
		`catchup is "some"`:                           {Cron: "@daily", CatchUp: "some"},
		"every is 1ms":                                {Every: value.Duration(time.Millisecond)},
		"depth is -1":                                 {Cron: "@daily", Depth: -1},
		"end is 2026-01-01":                           {Cron: "@daily", Start: "2026-02-01", End: "2026-01-01"},
		`end is "0001-01-01T00:00:00Z", want a later`: {Cron: "@daily", End: "0001-01-01T00:00:00Z"},
		`start is "0001-01-01", want a later time`:    {Cron: "@daily", Start: "0001-01-01"},
		`at is "tomorrow"`:                            {At: "tomorrow"},
		"which the clock of Europe/Berlin leaves out": {At: "2026-03-29 02:30", Timezone: "Europe/Berlin", DST: "skip"},
		`calendar: "25:00-26:00"`:                     {Cron: "@daily", Calendar: []string{"25:00-26:00"}},
		`calendar: "holidays"`:                        {Cron: "@daily", Calendar: []string{"holidays"}},
		`calendar: "2026-13-01"`:                      {Cron: "@daily", Calendar: []string{"2026-13-01"}},
		"calendar: a period is empty":                 {Cron: "@daily", Calendar: []string{" "}},
		"pause_after is -1":                           {Cron: "@daily", PauseAfter: -1},
	} {
		if err := Validate("x", s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", s, err, want)
		}
	}
}

// walls returns the wall time at each minute of a span in UTC, as if it were UTC.
func walls(zone *time.Location, from, to time.Time) []int64 {
	var all []int64
	for t := from; t.Before(to); t = t.Add(time.Minute) {
		_, offset := t.In(zone).Zone()
		all = append(all, t.Unix()+int64(offset))
	}
	return all
}

// walk is a second implementation, as plain as possible: it examines the wall time of every minute
// in UTC. It returns the numbers of the minutes.
func walk(walls []int64, policy string, matches func(wall int64) bool) []int {
	fires := map[int]bool{}
	latest := walls[0] - 60
	for i, w := range walls {
		for missing := latest + 60; missing < w; missing += 60 {
			switch {
			case !matches(missing):
			case policy == job.DSTOnce:
				fires[i] = true
			case policy == job.DSTShift:
				fires[i+int(missing-latest-60)/60] = true
			}
		}
		if (policy == job.DSTTwice || w > latest) && matches(w) {
			fires[i] = true
		}
		latest = max(latest, w)
	}
	return slices.Sorted(maps.Keys(fires))
}

func TestAYearTickByTick(t *testing.T) {
	expressions := map[string]func(w time.Time) bool{
		"30 2 * * *":     func(w time.Time) bool { return w.Hour() == 2 && w.Minute() == 30 },
		"*/10 1-3 * * *": func(w time.Time) bool { return w.Minute()%10 == 0 && w.Hour() >= 1 && w.Hour() <= 3 },
		"0 0 * * *":      func(w time.Time) bool { return w.Hour() == 0 && w.Minute() == 0 },
		"*/30 * * * *":   func(w time.Time) bool { return w.Minute()%30 == 0 },
		"15 1,2 13 * fri": func(w time.Time) bool {
			return w.Minute() == 15 && (w.Hour() == 1 || w.Hour() == 2) && (w.Day() == 13 || w.Weekday() == time.Friday)
		},
	}
	for _, z := range []struct {
		zone string
		year int
	}{
		{"Europe/Berlin", 2026}, {"America/New_York", 2026}, {"Australia/Lord_Howe", 2026}, {"America/Sao_Paulo", 2018},
		{"Asia/Kolkata", 2028},
	} {
		zone, err := time.LoadLocation(z.zone)
		if err != nil {
			t.Fatal(err)
		}
		from := time.Date(z.year, 1, 1, 0, 0, 0, 0, time.UTC)
		to := time.Date(z.year+1, 1, 1, 0, 0, 0, 0, time.UTC)
		walls := walls(zone, from, to)
		for expr, matches := range expressions {
			first := from.Unix() - 86400
			known := make([]bool, 368*24*60)
			for i := range known {
				known[i] = matches(time.Unix(first+int64(i)*60, 0).UTC())
			}
			match := func(wall int64) bool { return known[(wall-first)/60] }
			for _, policy := range job.DSTs {
				p := plan(t, job.Schedule{Cron: expr, Timezone: z.zone, DST: policy})
				want := walk(walls, policy, match)
				got, _ := p.Between(from.Add(-time.Nanosecond), to.Add(-time.Nanosecond), 1_000_000)
				for i := range max(len(want), len(got)) {
					g, w := "nothing", "nothing"
					if i < len(got) {
						g = got[i].At.Format(time.RFC3339)
					}
					if i < len(want) {
						w = from.Add(time.Duration(want[i]) * time.Minute).Format(time.RFC3339)
					}
					if g != w {
						t.Fatalf("%q in %s, dst %s: tick %d is %s, want %s", expr, z.zone, policy, i, g, w)
					}
				}
			}
		}
	}
}

func TestDelaysKeepTheOrder(t *testing.T) {
	for _, s := range []job.Schedule{
		{Cron: "*/5 * * * *", Jitter: value.Duration(2 * time.Minute)},
		{Cron: "*/5 * * * *", Jitter: value.Duration(time.Hour)},
		{Every: value.Duration(10 * time.Second), Spread: value.Duration(time.Minute), Jitter: value.Duration(3 * time.Second)},
	} {
		p := plan(t, s)
		after := at(t, "2026-01-01T00:00:00Z")
		var last Tick
		different := map[time.Duration]bool{}
		for range 100 {
			tick, ok := p.Next(after)
			again, _ := p.Next(after)
			if !ok || tick != again {
				t.Fatalf("%+v: the tick after %s is %v and %v", s, after, tick, again)
			}
			if tick.Due.Before(tick.At) || !tick.Due.After(last.Due) {
				t.Fatalf("%+v: tick %v after %v", s, tick, last)
			}
			if is, ok := p.Is(tick.At); !ok || is != tick {
				t.Fatalf("%v is no tick: %v", tick, is)
			}
			different[tick.Due.Sub(tick.At)] = true
			last, after = tick, tick.At
		}
		if s.Jitter > 0 && s.Spread == 0 && len(different) < 20 {
			t.Errorf("%+v: only %d different delays", s, len(different))
		}
	}
}

func TestHashedValuesDifferByName(t *testing.T) {
	minutes := map[int]bool{}
	for i := range 200 {
		p, err := Compile(fmt.Sprintf("job-%d", i), job.Schedule{Cron: "H H(0-5) * * *"}, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		tick, ok := p.Next(at(t, "2026-01-01T00:00:00Z"))
		if !ok || tick.At.Hour() > 5 {
			t.Fatalf("tick %v", tick)
		}
		minutes[tick.At.Minute()] = true
	}
	if len(minutes) < 40 {
		t.Errorf("200 schedules fall on %d minutes", len(minutes))
	}
}

func TestTaskID(t *testing.T) {
	tick := at(t, "2026-03-29T01:00:00Z")
	id := TaskID("nightly", tick)
	if _, err := task.ParseID(string(id)); err != nil {
		t.Fatal(err)
	}
	berlin, _ := time.LoadLocation("Europe/Berlin")
	if again := TaskID("nightly", tick.In(berlin)); again != id {
		t.Errorf("the same tick has the tasks %s and %s", id, again)
	}
	if TaskID("nightly2", tick) == id || TaskID("nightly", tick.Add(time.Millisecond)) == id {
		t.Error("two ticks have one task")
	}
	if want := task.ID("01KMW010"); !strings.HasPrefix(string(id), string(want)[:4]) {
		t.Errorf("the task is %s; its time must be the tick's", id)
	}
}

func FuzzCompile(f *testing.F) {
	for _, s := range []string{"* * * * *", "*/5 0-23/2 1,15 jan-dec mon#2", "@daily", "H H * * *", "0 0 30 2 *", "0 0 L-3 * 5#L", "59 59 23 31 12 7", "0 0 31W * *"} {
		f.Add(s, "Europe/Berlin", "22:00-06:00 mon-fri", "2026-03-29 02:30")
	}
	f.Add("@reboot", "", "12-24..01-02", "")
	f.Fuzz(func(t *testing.T, expr, zone, period, start string) {
		s := job.Schedule{Cron: expr, Timezone: zone, Start: start}
		if period != "" {
			s.Calendar = []string{period}
		}
		p, err := Compile("fuzz", s, time.Unix(0, 0))
		if err != nil {
			if err.Error() == "" {
				t.Fatal("an error without words")
			}
			return
		}
		after := time.Date(2026, 3, 28, 23, 0, 0, 0, time.UTC)
		for range 3 {
			tick, ok := p.Next(after)
			if !ok {
				return
			}
			if !tick.At.After(after) || tick.Due.Before(tick.At) {
				t.Fatalf("%+v: after %s comes %v", s, after, tick)
			}
			if _, is := p.Is(tick.At); !is {
				t.Fatalf("%+v: %v is no tick", s, tick)
			}
			after = tick.At
		}
	})
}

// Passed counts ticks from before the schedule was stored, in step with later ones, and never
// returns a future tick.
func TestPassed(t *testing.T) {
	stored := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(m int) time.Time { return stored.Add(time.Duration(m) * time.Minute) }
	for _, c := range []struct {
		name               string
		when               job.Schedule
		from, until, now   int
		most               int
		first, last, count int
		more               bool
	}{
		{"before it was stored", job.Schedule{Every: value.Duration(10 * time.Minute)}, -25, -5, 0, 10, -20, -10, 2, false},
		{"both ends are in", job.Schedule{Every: value.Duration(10 * time.Minute)}, -20, 0, 5, 10, -20, 0, 3, false},
		{"none of the future", job.Schedule{Every: value.Duration(10 * time.Minute)}, 5, 100, 35, 10, 10, 30, 3, false},
		{"no more than so many", job.Schedule{Every: value.Duration(10 * time.Minute)}, 5, 100, 100, 2, 10, 20, 2, true},
		{"not before its start", job.Schedule{Every: value.Duration(10 * time.Minute), Start: "2026-03-01 12:15"}, -60, 30, 60, 10, 15, 25, 2, false},
		{"by cron", job.Schedule{Cron: "*/10 * * * *"}, -25, -5, 0, 10, -20, -10, 2, false},
	} {
		d := Definition{Name: "x", When: c.when, Anchor: stored}
		ticks, more, err := d.Passed(at(c.from), at(c.until), at(c.now), c.most)
		if err != nil || len(ticks) != c.count || more != c.more || !ticks[0].At.Equal(at(c.first)) || !ticks[len(ticks)-1].At.Equal(at(c.last)) {
			t.Errorf("%s: %v, %v, %v", c.name, ticks, more, err)
		}
	}
}

// Ticks of an interval reach back beyond three centuries, after which a duration ends.
func TestPassedLongAgo(t *testing.T) {
	d := Definition{Name: "x", When: job.Schedule{Every: value.Duration(time.Hour)}, Anchor: time.Date(2026, 3, 1, 12, 30, 0, 0, time.UTC)}
	for _, year := range []int{1, 1700, 1733, 1800} {
		from := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
		ticks, more, err := d.Passed(from, from.Add(3*time.Hour), d.Anchor, 10)
		if err != nil || more || len(ticks) != 3 || !ticks[0].At.Equal(from.Add(30*time.Minute)) {
			t.Errorf("year %d: %v, %v, %v", year, ticks, more, err)
		}
	}
}
