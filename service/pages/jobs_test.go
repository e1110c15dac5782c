package pages

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/events/jet/definitions"
	"millrace/events/jet/rights"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/schedule"
	"millrace/task/value"
)

// job stores one where pages find it.
func (p *place) job(name string, argv ...string) {
	p.Helper()
	j := job.Job{Name: name, Spec: job.Spec{Run: &job.Run{Argv: argv}}}
	if _, _, err := p.client.Apply(p.Context(), j); err != nil {
		p.Fatal(err)
	}
	p.seen()
}

// The list of jobs is searched by all that it says of them, and puts them together by their groups, queues or a label; it
// says when a job runs next.
func TestJobsAreFound(t *testing.T) {
	t.Parallel()
	p := open(t)
	for _, j := range []job.Job{
		{Name: "backup", Title: "Nightly copy", Labels: map[string]string{"team": "ops"}, Spec: job.Spec{Run: &job.Run{Argv: []string{"pg_dump", "<shop>"}}}},
		{Name: "crawl", Queue: "web", Labels: map[string]string{"team": "data", "tier": "2"}, Spec: job.Spec{Handler: "crawl"}},
		{Name: "tidy", Group: "animals", Spec: job.Spec{Run: &job.Run{Shell: "find /tmp -delete"}}},
	} {
		if _, _, err := p.client.Apply(t.Context(), j); err != nil {
			t.Fatal(err)
		}
	}
	for name, every := range map[string]time.Duration{"rare": 48 * time.Hour, "often": time.Hour} {
		d := schedule.Definition{Name: name, When: job.Schedule{Every: value.Duration(every)}, Make: birth.Submission{Job: "backup"}}
		if _, _, err := p.client.PutSchedule(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	p.seen()
	for query, want := range map[string]string{
		"": "animals:tidy no group:backup crawl", "by=name": "backup crawl tidy", "by=name&q=NIGHTLY": "backup", "by=name&q=team%3Dops": "backup",
		"by=name&q=pg_dump+copy": "backup", "by=name&q=often": "backup", "by=name&q=web": "crawl",
		"by=name&q=default": "backup tidy", "q=nothing+tidy": "", "q=animals": "animals:tidy", "by=queue": "default:backup tidy web:crawl", "by=label.team": "no team:tidy team=data:crawl team=ops:backup",
		"by=label.team&q=a": "no team:tidy team=data:crawl team=ops:backup", "by=label.tier&q=web": "tier=2:crawl",
	} {
		page, _ := p.get(200, "/jobs?"+query)
		var got []string
		for _, is := range regexp.MustCompile(`<tr id="j-(\w+)"|colspan="9">([^<]*) <small>`).FindAllStringSubmatch(page, -1) {
			if got = append(got, is[1]); is[2] != "" {
				got[len(got)-1] = is[2] + ":"
			}
		}
		if is := strings.ReplaceAll(strings.Join(got, " "), ": ", ":"); is != want {
			t.Errorf("%q lists %q, want %q", query, is, want)
		}
	}
	page, _ := p.get(200, "/jobs?q=%3Cb%3E")
	p.says(page, "No job has <code>&lt;b&gt;</code>", "Show all jobs")
	page, _ = p.get(200, "/jobs")
	p.says(page, "pg_dump &lt;shop&gt;", "find /tmp -delete", ">tier</a>", "<small>queue web</small>", "schedules/often", "schedules/rare")
	rows, _ := p.client.JobRows(t.Context()) // no server answers, which leaves out what has run
	schedules, _ := p.client.ScheduleRows(t.Context())
	if len(rows) != 3 || len(schedules) != 2 {
		t.Fatalf("there are %d jobs and %d schedules", len(rows), len(schedules))
	}
	if !rows[1].Next.IsZero() || !rows[0].Next.Equal(schedules[0].Next.Due) {
		t.Errorf("the jobs run at %v and %v, the schedule at %v", rows[0].Next, rows[1].Next, schedules[0].Next.Due)
	}
	p.says(page, `<time datetime="`+rows[0].Next.Format(time.RFC3339Nano))
}

// Jobs can be put together by the labels that most of them have, and by groups if one has a group.
func TestJobsAreGrouped(t *testing.T) {
	var rows []client.JobRow
	for i := range 10 { // the first has one label, the last ten
		is := client.JobRow{StoredJob: definitions.StoredJob{Job: job.Job{Name: fmt.Sprint("job", i), Owner: fmt.Sprint("ann", i), Labels: map[string]string{}, Spec: job.Spec{Handler: "do"}}}}
		for label := range i + 1 {
			is.Labels[fmt.Sprint("l", 9-label)] = "x"
		}
		rows = append(rows, is)
	}
	for query, want := range map[string]struct{ group, here, ways, rows string }{
		"":           {"", "name", "name queue l9 l8 l7 l6 l5 l4 l3 l2", "10"},
		"q=ann3":     {"", "name", "name queue l9 l8 l7 l6 l5 l4 l3 l2", "1"},
		"by=queue":   {"", "queue", "name queue l9 l8 l7 l6 l5 l4 l3 l2", "10"},
		"by=label.x": {"", "", "name queue l9 l8 l7 l6 l5 l4 l3 l2", "10"},
		"by=":        {"one", "group", "name group queue l9 l8 l7 l6 l5 l4 l3 l2", "1 9"},
	} {
		asked, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		d := &jobsData{}
		d.Rows = slices.Clone(rows)
		d.Rows[0].Group = want.group
		d.arrange(&look{query: asked})
		var ways, of []string
		here := ""
		for _, w := range d.Ways {
			if ways = append(ways, w.Name); w.Here {
				here = w.Name
			}
		}
		for _, g := range d.Groups {
			of = append(of, fmt.Sprint(len(g.Rows)))
		}
		slices.Sort(of)
		if strings.Join(ways, " ") != want.ways || here != want.here || strings.Join(of, " ") != want.rows {
			t.Errorf("%q: the ways are %q, here is %q, and groups have %q jobs", query, ways, here, of)
		}
	}
}

func TestJobs(t *testing.T) {
	t.Parallel()
	p := open(t)
	page, _ := p.get(200, "/jobs")
	p.says(page, "There are no jobs yet", "New job")
	p.job("backup", "pg_dump", "shop")
	first := p.server.Desk.Reached()
	p.job("backup", "pg_dump", "--all")
	id := p.submit(birth.Submission{Job: "backup"})
	page, _ = p.get(200, "/jobs")
	p.says(page, "./jobs/backup", "pg_dump --all", "/tasks/"+string(id), `<svg class="strip"`)
	page, _ = p.get(200, "/jobs/backup")
	p.says(page, "pg_dump", "--all", "Revision 2", "<code>run.argv</code>", "&#34;shop&#34;", id.Short(), "run/job/backup", "Latest 1 task: 0 failed", fmt.Sprintf("at=%d", first))
	page, _ = p.get(200, fmt.Sprintf("/jobs/backup?at=%d", first))
	p.says(page, "as of then", "shop")
	if strings.Contains(page, "--all") || strings.Contains(page, `method="post"`) || strings.Contains(page, "edit/job") {
		t.Error("the past is not as it was, or can be changed")
	}
	_, h := p.press(303, "/do/task.submit", "job", "backup", "params", `{"full":true}`, "back", "/jobs/backup")
	to := h.Get("Location")
	made, err := p.client.Task(t.Context(), task.ID(to[strings.LastIndexByte(to, '/')+1:]))
	if err != nil || made.Job != "backup" || string(made.Params) != `{"full":true}` {
		t.Errorf("%s is %+v, %v", to, made.Work, err)
	}
	for path, status := range map[string]int{"/jobs/none": 404, "/jobs/%3Cscript%3E": 400, "/edit/job?name=none": 404, "/edit/job?name=%3Cscript%3E": 400} {
		page, _ := p.get(status, path)
		p.harmless(path, page)
	}
}

// The editor previews what its text would change; the server stores nothing before the user has
// seen that.
func TestEditor(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.job("backup", "pg_dump", "shop")
	const of = "/edit/job?name=backup"
	page, _ := p.get(200, of)
	if !strings.Contains(page, "<textarea") || !strings.Contains(page, "pg_dump") || strings.Contains(page, "do/job.apply") {
		t.Errorf("the editor has not the job, or stores what nobody has checked: %s", page)
	}
	for text, want := range map[string]string{
		"name: backup\nrn: x\n":                     "line 2:",
		"name: other\nrun: x\n":                     "that of another job",
		"name: backup\nrun: x\nschedule: {cron: x}": "cron",
		"{": "It cannot be stored",
		"":  "It cannot be stored",
		"name: a\nrun: x\n---\nname: b\nrun: x\n": "want one job",
	} {
		page, _ := p.press(200, of, "text", text)
		if !strings.Contains(page, want) || strings.Contains(page, "do/job.apply") {
			t.Errorf("of %q it is not said that %q, or it can be stored: %s", text, want, page)
		}
	}
	// All problems at once, in the order of the file.
	page, _ = p.press(200, of, "text", `name: other
retry: {max: -1}
schedule: {cron: "61 * * * *", timezone: Nowhere, end: never, depth: -1}
queue: a b
run: x
nosuch: 1
---
name: another
run: x
`)
	at := 0
	for _, want := range []string{"line 1:</b> name is that of another job", "line 2:</b> retry.max", "line 3:</b> schedule.cron", "line 3:</b> schedule.timezone", "line 3:</b> schedule.end", "line 3:</b> schedule.depth", "line 4:</b> queue name", "line 6:</b> unknown field `nosuch`", "line 8:</b> another job begins here"} {
		next := strings.Index(page[at:], want)
		if next < 0 {
			t.Fatalf("the problems, or their order, lack %q: %s", want, page)
		}
		at += next
	}
	p.editsHarmlessly(of, func(text string) string { return "name: backup\nrun:\n  argv: [echo, " + text + "]\n" })
	const good = "name: backup\r\nrun: [pg_dump, --all]\r\nschedule:\r\n  cron: 30 2 * * *\r\n  timezone: Europe/Vienna\r\n"
	page, _ = p.press(200, of, "text", good)
	for _, want := range []string{"What changes", "<code>run.argv</code>", "When it makes tasks", "02:30:00 &#43;0", "There are no nodes", "do/job.apply"} {
		if !strings.Contains(page, want) {
			t.Errorf("the preview does not say %q", want)
		}
	}
	if is, err := p.client.Job(t.Context(), "backup"); err != nil || is.Run.Argv[1] != "shop" {
		t.Errorf("who only looks has stored %+v, %v", is.Run, err)
	}
	_, h := p.press(303, "/do/job.apply", storing(t, page)...)
	if is, err := p.client.Job(t.Context(), "backup"); err != nil || is.Run.Argv[1] != "--all" || is.Schedule == nil || h.Get("Location") != "../jobs/backup" {
		t.Errorf("it is %+v, %v, at %s", is.Run, err, h.Get("Location"))
	}
	if page, _ = p.press(200, of, "text", good); !strings.Contains(page, "Nothing changes") || strings.Contains(page, "do/job.apply") {
		t.Error("what is there already can be stored again")
	}
	const mine, seen = "name: backup\nrun: [pg_dump, --mine]\n", "1"
	if page, _ = p.press(200, of, "text", mine, "seen", seen); !strings.Contains(page, "Another user has changed the job since you began") || strings.Contains(page, "do/job.apply") {
		t.Error("what somebody else has stored meanwhile can be overwritten")
	}
	if page, _ = p.press(200, "/edit/job", "text", mine, "seen", "0"); !strings.Contains(page, `name="if_revision" value="2"`) {
		t.Error("of what is stored as new it is not said what was there")
	}
	p.press(412, "/do/job.apply", "name", "backup", "definition", `{"run":{"argv":["x"]}}`, "if_revision", seen, "back", "/jobs/backup")
	p.as(rights.Viewer)
	if page, _ = p.press(200, of, "text", "name: backup\nrun: x\n"); strings.Contains(page, "do/job.apply") {
		t.Error("a viewer may store")
	}
	p.as(rights.Submitter)
	p.press(403, of, "text", good)
	p.as("")
	p.press(401, of, "text", good)
}

// An open breaker says so on the page of its job, and an operator closes it there.
func TestCloseBreaker(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.job("backup", "pg_dump", "shop")
	const button = "do/breaker.reset?name=backup"
	if page, _ := p.get(200, "/jobs/backup"); strings.Contains(page, button) {
		t.Error("a job without a breaker has a button that closes it")
	}
	is := limit.Opened{Reason: "all failed", Until: p.client.Now().Add(time.Hour)}
	f := &events.Fact{ID: events.NewID(p.client.Now()), At: p.client.Now(), Type: events.TypeOf(is), Job: "backup", Event: is}
	if _, err := p.store.Append(t.Context(), f, 0); err != nil {
		t.Fatal(err)
	}
	p.seen()
	for _, role := range []rights.Role{rights.Viewer, rights.Submitter} {
		p.as(role)
		p.press(403, "/"+button)
	}
	p.as(rights.Viewer)
	if page, _ := p.get(200, "/jobs/backup"); strings.Contains(page, button) || !strings.Contains(page, "Its breaker is open") {
		t.Error("a viewer has a button that closes a breaker, or does not see that it is open")
	}
	p.as(rights.Operator)
	if page, _ := p.get(200, "/jobs/backup"); !strings.Contains(page, button) {
		t.Error("an open breaker has no button that closes it")
	}
	p.press(303, "/"+button, "reason", "mended", "back", "/jobs/backup")
	if page, _ := p.get(200, "/jobs/backup"); strings.Contains(page, button) || strings.Contains(page, "Its breaker is") {
		t.Error("a closed breaker can be closed")
	}
	if c, err := p.client.View().Get(t.Context(), view.Breaker("backup")); err != nil || !c.Breaker.Closed() {
		t.Errorf("it is %+v, %v", c.Breaker, err)
	}
}

// rows are the tasks of a world, the newest first.
type rows struct {
	view.View
	tasks []task.Task
}

func (r rows) List(_ context.Context, q view.Query) (is view.Page, err error) {
	for i := range r.tasks {
		if q.Filter.Match(&r.tasks[i]) && len(is.Tasks) < q.Filter.Limit {
			is.Tasks = append(is.Tasks, r.tasks[i])
		}
	}
	return is, nil
}

// A job that seldom runs has figures, however many tasks others have had since.
func TestRareJobs(t *testing.T) {
	t.Parallel()
	var world rows
	for i := range countedRuns + 3 {
		job := "busy"
		if i >= countedRuns {
			job = "rare"
		}
		world.tasks = append(world.tasks, task.Task{Work: task.Work{Job: job}, State: task.Finished})
	}
	world.tasks[0].Parent = "whole"
	last := new(client.Run)
	row := func(name string, last *client.Run) (r client.JobRow) {
		r.Name, r.Last = name, last
		return r
	}
	of, err := runsOf(t.Context(), world, []client.JobRow{row("busy", last), row("new", nil), row("rare", last)})
	if err != nil || len(of["busy"]) != countedRuns-1 || len(of["rare"]) != 3 || of["new"] != nil {
		t.Errorf("busy has %d, rare %d and new %d tasks, %v", len(of["busy"]), len(of["rare"]), len(of["new"]), err)
	}
}

func TestFigures(t *testing.T) {
	t.Parallel()
	if got := figuresOf(nil); got != (figures{}) {
		t.Errorf("of none they are %+v", got)
	}
	var runs []view.Run
	for i := range 100 {
		runs = append(runs, view.Run{State: task.Finished, Ran: value.Duration((100 - i)) * value.Duration(time.Second)})
	}
	runs = append(runs, view.Run{State: task.Error, Ran: value.Duration(time.Hour)}, view.Run{State: task.Abnormal}, view.Run{State: task.Running})
	if got, want := figuresOf(runs), (figures{103, 2, 50 * time.Second, 95 * time.Second}); got != want {
		t.Errorf("they are %+v, want %+v", got, want)
	}
	if got := figuresOf(runs[:1]); got.P50 != 100*time.Second || got.P95 != 100*time.Second {
		t.Errorf("of one they are %+v", got)
	}
}

func TestRank(t *testing.T) {
	t.Parallel()
	var of []time.Duration
	for i := range 100 {
		of = append(of, time.Duration(i+1))
	}
	for percent, want := range map[int]time.Duration{0: 1, 1: 1, 50: 50, 95: 95, 100: 100} {
		if got := rank(of, percent); got != want {
			t.Errorf("%d of a hundred do not exceed %d, want %d", percent, got, want)
		}
	}
}

// A job is run by a form of its parameters, which says beside each what is wrong with it; a copy of
// a task uses the same form, filled with the task's values.
func TestRunForm(t *testing.T) {
	t.Parallel()
	p := open(t)
	var job job.Job
	if err := json.Unmarshal([]byte(`{"name":"deploy","run":{"argv":["deploy"]},"params":[{"name":"env","enum":["staging","production"],"default":"staging"},
		{"name":"replicas","type":"integer","min":1,"max":20,"default":2},{"name":"version","type":"string","pattern":"^v"},{"name":"token","secret":true,"default":{"file":"/run/a"}}]}`), &job); err != nil {
		t.Fatal(err)
	}
	if _, _, err := p.client.Apply(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	p.seen()
	of := "/run/job/deploy"
	page, _ := p.get(200, of)
	for _, want := range []string{`<option selected>staging</option>`, `type="number" id="p-replicas" name="param.replicas" value="2" min="1" max="20"`, `<input id="p-token" name="param.token" value="file:/run/a" spellcheck="false"`, `name="param.version" value="" required`, "text in the form ^v"} {
		if !strings.Contains(page, want) {
			t.Errorf("the form has no %s: %s", want, page)
		}
	}
	page, _ = p.press(200, of, "param.env", "staging", "param.replicas", "21", "param.version", "1", "param.token", "hunter2", "queue", "low")
	if strings.Count(page, `<strong class="wrong">`) != 3 || !strings.Contains(page, `value="21"`) || !strings.Contains(page, `name="queue" value="low"`) {
		t.Errorf("what is wrong is not said: %s", page)
	}
	page, _ = p.press(200, of, "param.version", "v1", "queue", "a b")
	if !strings.Contains(page, `class="wrong" role="alert"`) || !strings.Contains(page, `value="v1"`) {
		t.Errorf("what is wrong beside parameters is not said: %s", page)
	}
	made := func(path string, fields ...string) task.Task {
		t.Helper()
		_, h := p.press(303, path, fields...)
		to := h.Get("Location")
		is, err := p.client.Task(t.Context(), task.ID(to[strings.LastIndexByte(to, '/')+1:]))
		if err != nil {
			t.Fatal(err)
		}
		return is
	}
	first := made(of, "param.env", "staging", "param.replicas", "2", "param.version", "v1", "param.token", "file:/run/b", "priority", "8", "delay", "1h")
	if string(first.Params) != `{"env":"staging","replicas":2,"token":{"file":"/run/b"},"version":"v1"}` || first.Route.Priority() != 8 || first.State != task.Scheduled {
		t.Errorf("it is %s, %+v", first.Params, first.Work)
	}
	again := "/run/task/" + string(first.ID)
	page, _ = p.get(200, again)
	if !strings.Contains(page, `value="v1"`) || !strings.Contains(page, `value="file:/run/b"`) {
		t.Errorf("a copy does not begin with what the task had: %s", page)
	}
	second := made(again, "param.env", "production", "param.replicas", "2", "param.version", "v1", "param.token", "file:/run/b")
	if second.RetryOf != first.ID || string(second.Params) != `{"env":"production","replicas":2,"token":{"file":"/run/b"},"version":"v1"}` {
		t.Errorf("the copy is %s of %s", second.Params, second.RetryOf)
	}
	free := "/run/task/" + string(p.submit(command("date")))
	if third := made(free, "more", `{"a":[1]}`); string(third.Params) != `{"a":[1]}` {
		t.Errorf("another copy has %s", third.Params)
	}
	if pinned := made(free, "node", "w1"); !slices.Equal(pinned.Spec.Place.Nodes, []string{"w1"}) {
		t.Errorf("a copy for one node is %+v", pinned.Spec)
	}
	if page, _ = p.press(200, free, "more", `[`); !strings.Contains(page, "want a JSON object") {
		t.Error("what is no JSON is not said to be none")
	}
	for path, status := range map[string]int{"/run/job/none": 404, "/run/job/%3C": 400, "/run/task/x": 400, "/run/x/y": 404, again + "?at=1": 404, of + "?at=1": 200} {
		p.get(status, path)
	}
	if page, _ := p.get(200, of+"?at=1"); strings.Contains(page, `class="params"`) {
		t.Error("a job of the past is run")
	}
	p.as(rights.Viewer)
	p.get(403, of)
	p.press(403, of, "param.version", "v1")
}

// The latest tasks of a job are bars, the oldest first, as high as they ran long.
func TestStrip(t *testing.T) {
	t.Parallel()
	ran := func(id task.ID, state task.State, d time.Duration) view.Run {
		return view.Run{ID: id, State: state, Ran: value.Duration(d)}
	}
	runs := []view.Run{
		ran("01JD0000000000000000000003", task.Running, 0),
		ran("01JD0000000000000000000002", task.Error, 2*time.Second),
		ran("01JD0000000000000000000001", task.Finished, 4*time.Second),
		ran("01JD0000000000000000000000", task.Finished, time.Hour), // too old
	}
	is := stripOf(runs, 3, barHeight)
	want := strip{Width: 30, Height: 48, Bars: []stripBar{
		{ID: runs[2].ID, State: task.Finished, X: 0, Y: 0, Height: 48, Title: "0000001 finished, 4s"},
		{ID: runs[1].ID, State: task.Error, X: 10, Y: 24, Height: 24, Title: "0000002 error, 2s"},
		{ID: runs[0].ID, State: task.Running, X: 20, Y: 42, Height: 6, Title: "0000003 running"},
	}}
	if !reflect.DeepEqual(is, want) {
		t.Errorf("the bars are %+v, want %+v", is, want)
	}
	for _, b := range stripOf(runs, 12, squareHeight).Bars {
		if b.Y != 0 || b.Height != squareHeight {
			t.Errorf("in the list all bars are alike, but there is %+v", b)
		}
	}
	if none := stripOf(nil, 12, squareHeight); none.Bars != nil {
		t.Errorf("no tasks have the bars %+v", none)
	}
}

// The small lines of tasks go from the oldest to the youngest of those that were measured, as high as the highest.
func TestSmallLines(t *testing.T) {
	t.Parallel()
	used := func(memory int64) task.Task { return task.Task{Usage: &task.Usage{MaxMemory: memory}} }
	if all := smalls([]task.Task{used(1 << 20), {}}); all != nil {
		t.Errorf("of one that was measured there is %+v", all)
	}
	all := smalls([]task.Task{used(1 << 20), {}, used(4 << 20), used(0), used(2 << 20)})
	if len(all) != 1 || all[0] != (small{"memory", "of the latest tasks", "0,12 4,1 8,18", "1.0 MiB", "4.0 MiB"}) {
		t.Errorf("it is %+v", all)
	}
}
