package pages

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace/events/jet/rights"
	"millrace/projections/view"
	"millrace/service/answers"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/schedule"
	"millrace/task/value"
)

// schedule puts one of a command where pages find it.
func (p *place) schedule(name string, when job.Schedule, argv ...string) schedule.Stored {
	p.Helper()
	if _, _, err := p.store.PutSchedule(p.Context(), schedule.Definition{Name: name, When: when, Make: command(argv...)}, "test"); err != nil {
		p.Fatal(err)
	}
	stored, err := p.client.Schedule(p.Context(), name)
	if err != nil {
		p.Fatal(err)
	}
	p.seen()
	return stored
}

func TestSchedules(t *testing.T) {
	t.Parallel()
	p := open(t)
	if page, _ := p.get(200, "/schedules"); !strings.Contains(page, "There are no schedules yet") {
		t.Error("an empty list does not say what to do")
	}
	vienna, err := time.LoadLocation("Europe/Vienna")
	if err != nil {
		t.Fatal(err)
	}
	p.schedule("nightly", job.Schedule{Cron: "30 2 * * *", Timezone: "Europe/Vienna"}, "pg_dump", "shop")
	const of = "/schedules/nightly"
	tick := time.Date(2026, 3, 4, 2, 30, 0, 0, vienna)
	made, _, err := p.client.RunTick(t.Context(), "nightly", tick)
	if err != nil {
		t.Fatal(err)
	}
	p.seen()
	stored := p.server.Desk.Reached()
	has := func(path string, texts ...string) {
		t.Helper()
		page, _ := p.get(200, path)
		for _, text := range texts {
			if !strings.Contains(page, text) {
				t.Errorf("%s does not say %q", path, text)
			}
		}
		p.harmless(path, page)
	}
	has("/schedules", "nightly", "30 2 * * *", "Europe/Vienna", "pg_dump shop", "./schedules/nightly", made.ID.Short())
	has(of, "to come", "02:30:00 &#43;0", "do/schedule.pause", "do/schedule.run", "Europe/Vienna", "No planned run of this week has passed")
	has(of+"?week=2026-03-06", "Week of 2026-03-02", "week=2026-02-23", "week=2026-03-09", "Wed 4 Mar", "pending", made.ID.Short(), task.TriggerBackfill)
	has(fmt.Sprintf("%s?from=2026-03-03&to=2026-03-06&at=%d", of, stored), "Of 3 planned runs 2 have no task", "no task", made.ID.Short())
	has(of+"?from=2026-03-03&to=2026-03-06", "--from '2026-03-03' --to '2026-03-06'", "no task", made.ID.Short())
	span := of + "?from=2026-03-03&to=2026-03-06"
	has(span, "3 planned runs: 2 without a task", "make the 2 tasks")
	if _, h := p.press(303, "/do/schedule.backfill", "name", "nightly", "from", "2026-03-03", "to", "2026-03-06", "max_parallel", "2", "back", span); !strings.HasSuffix(h.Get("Location"), "schedules/nightly?from=2026-03-03&to=2026-03-06") {
		t.Errorf("a backfill leads to %s", h.Get("Location"))
	}
	has(span, "3 planned runs: 1 without a task", "make the task")
	has(of+"?from=%3Cb%3E", `role="alert"`, "&lt;b&gt;")
	p.as(rights.Viewer)
	if page, _ := p.get(200, of); strings.Contains(page, `method="post"`) {
		t.Error("a viewer has buttons")
	}
	p.as(rights.Operator)
	for path, status := range map[string]int{"/schedules/none": 404, of + "?week=x": 400, of + "?week=0001-01-01": 400, "/schedules/%3Cscript%3E": 400, of + "?at=1": 200} {
		page, _ := p.get(status, path)
		p.harmless(path, page)
	}
	for _, text := range hostile {
		text = strings.ReplaceAll(text[:min(len(text), 200)], "\x00", "")
		p.schedule("nightly", job.Schedule{Cron: "30 2 * * *", Timezone: "Europe/Vienna"}, "echo", text)
		p.press(303, "/do/schedule.pause", "name", "nightly", "reason", text, "back", of)
		for _, path := range []string{of, "/schedules", of + "?week=" + strings.ReplaceAll(text, " ", "")} {
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/schedules", nil)
			r.URL.Path, r.URL.RawQuery, _ = strings.Cut(path, "?")
			p.ServeHTTP(w, r)
			p.harmless(fmt.Sprintf("%.20q with %.20q", path, text), w.Body.String())
		}
		p.press(303, "/do/schedule.resume", "name", "nightly", "back", of)
	}
	p.press(303, "/do/schedule.pause", "name", "nightly", "reason", "no disk", "back", of)
	has(of, "It is paused by ada", "no disk", "do/schedule.resume", "paused")
	has("/schedules", "paused", "no disk")
	then, _ := p.get(200, fmt.Sprintf("%s?at=%d", of, stored))
	if strings.Contains(then, "It is paused") || strings.Contains(then, `method="post"`) || !strings.Contains(then, "pg_dump shop") {
		t.Error("the past is not as it was, or has buttons")
	}
	if _, h := p.press(303, "/do/schedule.run", "name", "nightly", "back", of); !strings.Contains(h.Get("Location"), "/tasks/") {
		t.Errorf("what was made is to be seen at %s", h.Get("Location"))
	}
}

// Ticks end where the time ends that is asked for, and a tick that has a task tells when that was
// made.
func TestTicksOfSomeTime(t *testing.T) {
	t.Parallel()
	p := open(t)
	stored := p.schedule("hourly", job.Schedule{Every: value.Duration(time.Hour)}, "date")
	first := stored.Anchor.Truncate(time.Second).Add(time.Hour)
	if _, _, err := p.client.RunTick(t.Context(), "hourly", first.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	at := view.Point{At: first.Add(5 * time.Hour)}
	reports, err := client.TicksOf(t.Context(), p.store.Decisions, p.client.View(), at, &stored, first, first.Add(2*time.Hour), 10)
	if err != nil || len(reports) != 2 || reports[0].Outcome != client.TickTask || reports[0].Made.IsZero() || reports[1].Outcome != client.TickHole {
		t.Errorf("%+v, %v", reports, err)
	}
}

func TestWeek(t *testing.T) {
	t.Parallel()
	vienna, err := time.LoadLocation("Europe/Vienna")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 10, 25, 12, 0, 0, 0, vienna) // a Sunday of 25 hours
	for date, want := range map[string]string{"": "2026-10-19", "2026-10-19": "2026-10-19", "2026-10-26": "2026-10-26", "2026-11-01": "2026-10-26", "2027-01-01": "2026-12-28", "x": "", "2026-13-01": ""} {
		got, err := weekOf(date, now)
		if (err != nil) != (want == "") || err == nil && (got.Format(time.DateOnly) != want || got.Hour() != 0) {
			t.Errorf("%q begins on %v, %v, want %s", date, got, err, want)
		}
	}
	from, err := weekOf("", now)
	if err != nil {
		t.Fatal(err)
	}
	var ticks []tickRow
	for at := from; at.Before(from.AddDate(0, 0, 7)); at = at.Add(time.Hour) {
		if at.Day() == 20 && at.Hour() > 2 {
			continue
		}
		row := tickRow{became: becameOf(&client.TickReport{Outcome: client.TickHole})}
		row.times(at, at, vienna)
		ticks = append(ticks, row)
	}
	days := daysOf(from, now, ticks)
	if len(days[6].Sums) != 1 || days[6].Sums[0].N != 25 || days[6].Sums[0].Word != "missed" || !days[6].Today {
		t.Errorf("the day of 25 hours is %+v", days[6])
	}
	if len(days[1].Ticks) != 3 || days[1].Sums != nil || days[1].Today || days[1].Ticks[2].Clock != "02:00" {
		t.Errorf("a day with few ticks is %+v", days[1])
	}
}

func TestBecame(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		outcome string
		state   task.State
		want    became
	}{
		{client.TickTask, task.Finished, became{"ran", task.Finished}},
		{client.TickTask, task.Cancelled, became{"ran", task.Cancelled}},
		{client.TickTask, task.Unknown, became{"ran", task.Unknown}},
		{client.TickTask, task.Running, became{"running", task.Running}},
		{client.TickTask, task.Error, became{"failed", task.Error}},
		{client.TickTask, task.Abnormal, became{"failed", task.Abnormal}},
		{client.TickSkipped, task.Unknown, became{"skipped", task.Cancelled}},
		{client.TickHole, task.Unknown, became{"missed", task.Abnormal}},
		{client.TickWaiting, task.Unknown, became{"waiting", task.Pending}},
	} {
		if got := becameOf(&client.TickReport{Outcome: c.outcome, State: c.state}); got != c.want {
			t.Errorf("%s %s is %v, want %v", c.outcome, c.state, got, c.want)
		}
	}
	for one, other := range map[became]became{{"ran", task.Finished}: {"ran", task.Cancelled}, {"failed", task.Error}: {"failed", task.Abnormal}} {
		if one.counted() != other.counted() {
			t.Errorf("a day has two numbers of what %s", one.Word)
		}
	}
}

// The days of a schedule that ticks often have true numbers, of what is to come and of what has run.
func TestWeekCounts(t *testing.T) {
	t.Parallel()
	monday := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	now := monday.Add(5*24*time.Hour + time.Hour) // a Saturday
	for every, want := range map[time.Duration][2]tickSum{
		30 * time.Second: {{N: 2759}, {N: 2880}},
		time.Second:      {{N: countedTicks, More: true}, {N: 0, More: true}},
	} {
		plan, err := schedule.Compile("often", job.Schedule{Every: value.Duration(every)}, monday)
		if err != nil {
			t.Fatal(err)
		}
		w := week{Days: make([]day, 7)}
		w.count(monday, now, plan, became{"to come", task.Scheduled})
		for i, want := range want {
			if sums := w.Days[5+i].Sums; len(sums) != 1 || sums[0].N != want.N || sums[0].More != want.More {
				t.Errorf("every %v: day %d has %+v, want %+v", every, 5+i, sums, want)
			}
		}
		if w.Days[4].Sums != nil {
			t.Errorf("a day that has passed has %+v to come", w.Days[4].Sums)
		}
	}
	p := open(t)
	p.schedule("often", job.Schedule{Cron: "* * * * *"}, "date")
	that := time.Now().UTC().AddDate(0, 0, -10).Truncate(24 * time.Hour) // these are made now, all of them
	for _, tick := range []time.Time{that.Add(-time.Minute), that, that.Add(time.Hour), that.Add(24*time.Hour - time.Minute), that.Add(24 * time.Hour)} {
		if _, _, err := p.client.RunTick(t.Context(), "often", tick); err != nil {
			t.Fatal(err)
		}
	}
	p.seen()
	for _, at := range []string{"", strconv.FormatUint(p.server.Desk.Reached(), 10)} {
		err := p.server.Desk.See(t.Context(), "ada", at, func(ctx context.Context, sight *answers.Sight) error {
			w, l := week{Days: make([]day, 7)}, &look{Sight: sight}
			from, err := weekOf(that.Format(time.DateOnly), sight.Now.UTC())
			if err != nil {
				return err
			}
			if err := w.made(ctx, l, "often", from, that.Add(time.Hour)); err != nil {
				return err
			}
			if on := w.Days[int(that.Sub(from).Hours())/24].Sums; len(on) != 1 || on[0].N != 3 || on[0].More {
				t.Errorf("at %q the day has %+v, want 3", at, on)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A run of a schedule says of which tick it is wherever runs are listed, and in its head: after a backfill
// all of them were submitted at once.
func TestRunsSayTheirTick(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.job("report", "true")
	if _, _, err := p.store.PutSchedule(t.Context(), schedule.Definition{Name: "nightly", When: job.Schedule{Cron: "0 3 * * *"}, Make: birth.Submission{Job: "report"}}, "test"); err != nil {
		t.Fatal(err)
	}
	var ids []task.ID
	for _, day := range []int{4, 5} {
		made, _, err := p.client.RunTick(t.Context(), "nightly", time.Date(2026, 3, day, 3, 0, 0, 0, time.UTC))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, made.ID)
	}
	d := schedule.Definition{Name: "pulse", When: job.Schedule{Every: value.Duration(time.Hour)}, Make: command("true")}
	if _, _, err := p.store.PutSchedule(t.Context(), d, "test"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := p.client.RunTick(t.Context(), "pulse", time.Date(2026, 3, 4, 3, 0, 0, 0, time.UTC)); err != nil {
		t.Fatal(err)
	}
	p.seen()
	for path, texts := range map[string][]string{
		"/tasks?q=schedule:pulse": {"<small>of pulse, "}, "/events": {"schedule pulse, planned for "}, "/schedules/pulse": {"whatever is planned"},
		"/jobs/report": {"2026-03-04T03:00:00Z", "2026-03-05T03:00:00Z"}, "/tasks": {"2026-03-04T03:00:00Z", "2026-03-05T03:00:00Z"},
		"/tasks/" + string(ids[0]) + "/compare": {"2026-03-05T03:00:00Z"}, "/schedules": {"every day at 03:00 <small><code>0 3 * * *</code>"}, "/schedules/nightly": {"every day at 03:00 <code>0 3 * * *</code>"}, "/tasks/" + string(ids[0]): {"2026-03-04T03:00:00Z"},
	} {
		page, _ := p.get(200, path)
		p.says(page, texts...)
	}
	page, _ := p.get(200, "/tasks/"+string(ids[0]))
	if head := part(t, page, `<div id="title">`, `</div>`); !strings.Contains(head, "2026-03-04T03:00:00Z") {
		t.Errorf("the head of a run does not say of which night it is: %s", head)
	}
}

// The grid of planned runs is on three pages, has its words for those who see no colours, and one stop of the
// tabulator for each schedule.
func TestGrid(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.schedule("nightly", job.Schedule{Cron: "30 2 * * *"}, "pg_dump", "shop")
	for day := 3; day <= 5; day++ {
		if _, _, err := p.client.RunTick(t.Context(), "nightly", time.Date(2026, 3, day, 2, 30, 0, 0, time.UTC)); err != nil {
			t.Fatal(err)
		}
	}
	p.seen()
	page, _ := p.get(200, "/schedules?until=2026-03-05")
	for _, text := range []string{`<th scope="col">Thu 5</th>`, "Planned runs", `title="nightly, Wed 4 Mar: 02:30 waiting"`, "… waiting", `"grid"`} {
		if !strings.Contains(page, text) {
			t.Errorf("the page lacks %s", text)
		}
	}
	if links := strings.Count(page, `title="nightly, `); links != 3 || strings.Count(page, `tabindex="-1" title="nightly, `) != 2 {
		t.Errorf("the grid has %d cells, and not one of them is a stop: %s", links, page)
	}
	if page, _ := p.get(200, "/schedules?by=week"); !strings.Contains(page, "want day or hour") {
		t.Error("an unknown column is not refused")
	}
	if page, _ := p.get(200, "/jobs"); strings.Contains(page, "Planned runs") {
		t.Error("Jobs shows schedules of commands")
	}
}
