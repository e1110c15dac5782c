package pages

import (
	"encoding/json"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"testing"

	"millrace/events/jet/rights"
	"millrace/service/httpapi"
	"millrace/task/job"
	"millrace/task/jobfile"
	"millrace/task/queue"
	"millrace/task/schedule"
)

// A schedule with work of its own has an editor, too; that of a job is edited with the job.
func TestScheduleEditor(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.job("backup", "pg_dump", "shop")
	p.schedule("pulse", job.Schedule{Every: 3600e9}, "echo", "hello")
	const of = "/edit/schedule?name=pulse"
	page, _ := p.get(200, of)
	for _, want := range []string{"<textarea", "every: 1h", "argv:", "millrace schedule add -f"} {
		if !strings.Contains(page, want) {
			t.Errorf("the editor lacks %q: %s", want, page)
		}
	}
	if strings.Contains(page, "do/schedule.apply") || strings.Contains(page, "anchor") || strings.Contains(page, "since:") {
		t.Errorf("it stores what nobody has checked, or shows what is the store's: %s", page)
	}
	for text, want := range map[string]string{
		"name: other\nschedule: {every: 1h}\ntask: {job: backup}\n":                 "line 1:</b> name is that of another schedule",
		"name: pulse\nschedule:\n  cron: x\ntask: {job: backup}\n":                  "line 3:</b> schedule.cron",
		"name: pulse\nschedule: {every: 1h}\n":                                      "task: set job, or spec",
		"name: pulse\nschedule: {every: 1h}\ntask: {job: nosuch}\n":                 "nosuch",
		"name: pulse\nschedule: {every: 1h}\ntask:\n  jbo: backup\n":                "line 4:</b> there is no field &#34;jbo&#34;",
		"name: pulse\nschedule: {every: 1h}\ntask: {job: backup, priority: high}\n": "task.priority is a string",
		"name: pulse\npaused: {}\nschedule: {every: 1h}\ntask: {job: backup}\n":     "line 2:</b> paused is the store",
		"name: pulse\nschedule: {every: 1h}\ntask: {job: backup}\n---\nname: b\n":   "want one schedule",
		"[1, 2]": "want a schedule",
		"{":      "It cannot be stored",
		"":       "the file is empty",
	} {
		page, _ := p.press(200, of, "text", text)
		if !strings.Contains(page, want) || strings.Contains(page, "do/schedule.apply") {
			t.Errorf("of %q it is not said that %q, or it can be stored: %s", text, want, page)
		}
	}
	p.editsHarmlessly(of, func(text string) string {
		return "name: pulse\nschedule: {every: 1h}\ntask: {spec: {run: {argv: [echo, " + text + "]}}}\n"
	})
	const good = "name: pulse\r\nschedule:\r\n  cron: 30 2 * * *\r\n  timezone: Europe/Vienna\r\ntask:\r\n  job: backup\r\n"
	page, _ = p.press(200, of, "text", good)
	for _, want := range []string{"What changes", "<code>schedule.cron</code>", "When it makes tasks", "Europe/Vienna", "There are no nodes", "do/schedule.apply"} {
		if !strings.Contains(page, want) {
			t.Errorf("the preview does not say %q: %s", want, page)
		}
	}
	_, h := p.press(303, "/do/schedule.apply", storing(t, page)...)
	if is, err := p.client.Schedule(t.Context(), "pulse"); err != nil || is.When.Cron != "30 2 * * *" || is.Make.Job != "backup" || is.Make.Spec != nil || h.Get("Location") != "../schedules/pulse" {
		t.Errorf("it is %+v, %v, at %s", is, err, h.Get("Location"))
	}
	if page, _ = p.press(200, of, "text", good); !strings.Contains(page, "Nothing changes") || strings.Contains(page, "do/schedule.apply") {
		t.Error("what is there already can be stored again")
	}
	if page, _ = p.press(200, of, "text", strings.Replace(good, "30 2", "31 2", 1), "seen", "1"); !strings.Contains(page, "Another user has changed the schedule since you began") {
		t.Error("what somebody else has stored meanwhile can be overwritten")
	}
	if page, _ = p.press(200, "/edit/schedule", "text", strings.ReplaceAll(good, "pulse", "fresh"), "seen", "0"); !strings.Contains(page, "A new schedule, fresh") {
		t.Errorf("a new one is not said to be new: %s", page)
	}
	p.get(200, "/edit/schedule")
	p.get(404, "/edit/schedule?name=none")
	p.get(400, "/edit/schedule?name=%3Cscript%3E")

	// Of a job: its page leads to the editor of the job, and so does the other editor.
	j := job.Job{Name: "nightly", Spec: job.Spec{Run: &job.Run{Argv: []string{"true"}}}, Schedule: &job.Schedule{Cron: "0 3 * * *"}}
	if _, _, err := p.client.Apply(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	p.seen()
	if _, h := p.get(303, "/edit/schedule?name=nightly"); h.Get("Location") != "../edit/job?name=nightly" {
		t.Errorf("the schedule of a job is edited at %s", h.Get("Location"))
	}
	if page, _ := p.get(200, "/schedules/nightly"); !strings.Contains(page, "edit/job?name=nightly") {
		t.Error("the page of a job's schedule does not lead to its editor")
	}
	if page, _ := p.get(200, "/schedules/pulse"); !strings.Contains(page, "edit/schedule?name=pulse") {
		t.Error("the page of a schedule does not lead to its editor")
	}
	if page, _ = p.press(200, "/edit/schedule", "text", strings.ReplaceAll(good, "pulse", "nightly"), "seen", "0"); strings.Contains(page, "do/schedule.apply") || !strings.Contains(page, "is part of a job") {
		t.Errorf("the schedule of a job can be stored without it: %s", page)
	}
	p.as(rights.Viewer)
	if page, _ := p.press(200, of, "text", strings.Replace(good, "30 2", "31 2", 1)); strings.Contains(page, "do/schedule.apply") {
		t.Error("a viewer may store")
	}
	p.as(rights.Submitter)
	p.press(403, of, "text", good)
}

// editsHarmlessly checks what an editor shows of hostile texts: of each alone, and of one that stands
// quoted in a definition.
func (p *place) editsHarmlessly(of string, within func(quoted string) string) {
	p.Helper()
	for _, text := range hostile {
		for _, typed := range []string{text, within(pretty(text))} {
			page, _ := p.press(200, of, "text", typed)
			p.harmless("the editor", page)
		}
	}
}

// storing are the fields of the form that stores what an editor previews.
func storing(t *testing.T, page string) (fields []string) {
	t.Helper()
	for _, e := range elements(t, page) {
		if e.name == "input" && e.attr["type"] == "hidden" && slices.Contains([]string{"name", "definition", "if_revision", "back"}, e.attr["name"]) {
			fields = append(fields, e.attr["name"], e.attr["value"])
		}
	}
	return fields
}

// Definitions are removed by a button that operators have, and that leads to the list; the schedule of
// a job goes with the job.
func TestRemove(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.job("backup", "pg_dump", "shop")
	p.schedule("pulse", job.Schedule{Every: 3600e9}, "echo", "hello")
	p.calendar("office", "")
	j := job.Job{Name: "nightly", Spec: job.Spec{Run: &job.Run{Argv: []string{"true"}}}, Schedule: &job.Schedule{Cron: "0 3 * * *"}}
	if _, _, err := p.client.Apply(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	p.seen()
	if page, _ := p.get(200, "/schedules/nightly"); strings.Contains(page, "do/schedule.remove") {
		t.Error("the schedule of a job can be removed without it")
	}
	for path, verb := range map[string]string{"/jobs/backup": "job.remove", "/schedules/pulse": "schedule.remove", "/calendars/office": "calendar.remove", "/jobs/nightly": "job.remove"} {
		list, name, _ := strings.Cut(path[1:], "/")
		button, back := "do/"+verb+"?name="+name, `name="back" value="/`+list+`"`
		for _, role := range []rights.Role{rights.Viewer, rights.Submitter} {
			p.as(role)
			p.press(403, "/do/"+verb+"?name="+name)
		}
		p.as(rights.Viewer)
		if page, _ := p.get(200, path); strings.Contains(page, button) {
			t.Errorf("a viewer has a button that removes %s", path)
		}
		p.as(rights.Operator)
		page, _ := p.get(200, path)
		if !strings.Contains(page, button) || !strings.Contains(page, back) {
			t.Errorf("%s has no button that removes it: %s", path, page)
		}
		if past, _ := p.get(200, fmt.Sprintf("%s?at=%d", path, p.server.Desk.Reached())); strings.Contains(past, button) {
			t.Errorf("%s can be removed from the past", path)
		}
		if _, h := p.press(303, "/"+button, "back", "/"+list); !strings.HasPrefix(h.Get("Location"), "../"+list+"?did=") {
			t.Errorf("after it was removed, %s leads to %s", path, h.Get("Location"))
		}
		p.get(404, path)
		if list, _ := p.get(200, "/"+list); strings.Contains(list, "/"+name+`"`) {
			t.Errorf("the list still has %s", path)
		}
	}
	p.get(404, "/schedules/nightly")
}

// calendar stores one that is open at all times but on the last day of a year, where pages find it.
func (p *place) calendar(name, title string) {
	p.Helper()
	c := schedule.Calendar{Name: name, Title: title, Timezone: "Europe/Vienna", Rules: []schedule.Rule{{Closed: "12-31"}}}
	if _, _, err := p.client.ApplyCalendar(p.Context(), c); err != nil {
		p.Fatal(err)
	}
	p.seen()
}

// Calendars say when they are open, and what goes by them.
func TestCalendars(t *testing.T) {
	t.Parallel()
	p := open(t)
	page, _ := p.get(200, "/calendars")
	p.says(page, "There are no calendars yet", "New calendar")
	p.calendar("holidays", hostile[0])
	first := p.server.Desk.Reached()
	page, _ = p.get(200, "/calendars/holidays")
	p.says(page, "No job, schedule or queue goes by it", "Revision 1", "do/calendar.remove?name=holidays", "edit/calendar?name=holidays")
	window := "holidays"
	j := job.Job{Name: "backup", Spec: job.Spec{Run: &job.Run{Argv: []string{"true"}}, Window: window}, Schedule: &job.Schedule{Cron: "0 3 * * *"}}
	if _, _, err := p.client.Apply(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	p.schedule("pulse", job.Schedule{Every: 3600e9}, "echo", "hello")
	if _, err := p.client.LimitQueue(t.Context(), "mail", queue.Limit{Window: &window}); err != nil {
		t.Fatal(err)
	}
	p.seen()
	uses := []string{"jobs/backup", "schedules/backup", "queue mail"}
	page, _ = p.get(200, "/calendars")
	p.says(page, append(uses, "./calendars/holidays", "Europe/Vienna", "</span> open")...)
	if strings.Contains(page, "schedules/pulse") {
		t.Error("a schedule without a window is said to go by a calendar")
	}
	page, _ = p.get(200, "/calendars/holidays")
	p.says(page, append(uses, "-12-31 00:00 &#43;01:00", "-01-01 00:00 &#43;01:00", "closed")...)
	page, _ = p.get(200, "/jobs/backup")
	p.says(page, "../calendars/holidays")
	page, _ = p.get(200, "/queues")
	p.says(page, "./calendars/holidays")
	page, _ = p.get(200, fmt.Sprintf("/events/%d", first))
	p.says(page, "../calendars/holidays")
	if page, _ = p.get(200, fmt.Sprintf("/calendars/holidays?at=%d", first)); strings.Contains(page, `method="post"`) || strings.Contains(page, "jobs/backup") {
		t.Error("the past is not as it was, or can be changed")
	}
	p.get(404, "/calendars/none")
	p.get(400, "/calendars/%3Cscript%3E")
	p.as(rights.Submitter)
	p.get(403, "/calendars")
}

// The editor of calendars previews when the calendar is open, and stores what was previewed.
func TestCalendarEditor(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.calendar("office", "")
	const of = "/edit/calendar?name=office"
	if page, _ := p.get(200, of); !strings.Contains(page, `closed: &#34;12-31&#34;`) || !strings.Contains(page, "millrace calendar apply") || strings.Contains(page, "do/calendar.apply") {
		t.Errorf("the editor has not the calendar, or stores what nobody has checked: %s", page)
	}
	for text, want := range map[string]string{
		"name: other\nrules: [{closed: sun}]\n":                                      "line 1:</b> name is that of another calendar",
		"name: office\nrules:\n  - closed: 22:00\n":                                  "line 3:</b> rules[0].closed",
		"name: office\nrulez: []\n":                                                  "rulez",
		"name: office\nrules: [{open: sun}]\n":                                       "would never close",
		"name: office\nrules: [{open: 2020-01-01}]\notherwise: closed\n":             "does not open within a year",
		"name: office\nrules: [{closed: sun}]\n---\nname: b\nrules: [{closed: sun}]": "another calendar begins here: want one calendar",
		"": "the file is empty",
	} {
		page, _ := p.press(200, of, "text", text)
		if !strings.Contains(page, want) || strings.Contains(page, "do/calendar.apply") {
			t.Errorf("of %q it is not said that %q, or it can be stored: %s", text, want, page)
		}
	}
	p.editsHarmlessly(of, func(text string) string { return "name: office\ntitle: " + text + "\nrules: [{closed: sun}]\n" })
	const good = "name: office\r\ntimezone: Europe/Vienna\r\nrules:\r\n  - open: mon-fri 08:00-18:00\r\notherwise: closed\r\n"
	page, _ := p.press(200, of, "text", good)
	for _, want := range []string{"What changes", "<code>otherwise</code>", "When it is open", "08:00", "10h"} {
		if !strings.Contains(page, want) {
			t.Errorf("the preview does not say %q: %s", want, page)
		}
	}
	if strings.Contains(page, "Where it runs") {
		t.Error("a calendar is said to run somewhere")
	}
	_, h := p.press(303, "/do/calendar.apply", storing(t, page)...)
	if is, err := p.client.CalendarAt(t.Context(), "office", 0); err != nil || is.Otherwise != schedule.Closed || h.Get("Location") != "../calendars/office" {
		t.Errorf("it is %+v, %v, at %s", is, err, h.Get("Location"))
	}
	if page, _ = p.press(200, of, "text", strings.Replace(good, "08:00", "09:00", 1), "seen", "1"); !strings.Contains(page, "Another user has changed the calendar since you began") {
		t.Error("what somebody else has stored meanwhile can be overwritten")
	}
	p.get(404, "/edit/calendar?name=none")
	p.as(rights.Viewer)
	if page, _ = p.press(200, of, "text", strings.Replace(good, "08:00", "09:00", 1)); strings.Contains(page, "do/calendar.apply") {
		t.Error("a viewer may store")
	}
	p.as(rights.Submitter)
	p.press(403, of, "text", good)
}

// A new job can begin with a file, which can be stored as it is; a form writes another one.
func TestBeginnings(t *testing.T) {
	t.Parallel()
	p := open(t)
	page, _ := p.get(200, "/edit/job")
	for _, b := range beginnings {
		if !strings.Contains(page, "./job?begin="+b.Name+`">`+b.Title) {
			t.Errorf("the editor does not offer %s: %s", b.Title, page)
		}
		text, err := templates.ReadFile("templates/begin-" + b.Name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		of := "/edit/job?begin=" + b.Name
		page, _ := p.get(200, of)
		p.says(page, strings.Split(template.HTMLEscapeString(string(text)), "\n")...)
		page, _ = p.press(200, of, "text", string(text), "seen", "0")
		p.says(page, "A new job")
		_, h := p.press(303, "/do/job.apply", storing(t, page)...)
		p.get(200, strings.TrimPrefix(h.Get("Location"), ".."))
	}
	p.get(400, "/edit/job?begin=none")
	p.get(400, "/edit/job?begin=../editor")
	p.get(400, "/edit/schedule?begin=nightly")
	page, _ = p.get(200, "/edit/job?name=backup&begin=")
	if strings.Contains(page, `id="usual"`) {
		t.Error("the form would take the place of a job that exists")
	}
	page, _ = p.press(200, "/edit/job", "name", "pulse", "run", "date", "when", "never")
	p.says(page, "name: pulse\nrun: date\nschedule:\n  cron: never\n", "line 4:</b>", `value="never"`)
	page, _ = p.press(200, "/edit/job", "name", "pulse", "run", "date", "when", "15m")
	p.says(page, "A new job, pulse", "When it makes tasks")
	_, h := p.press(303, "/do/job.apply", storing(t, page)...)
	if at := h.Get("Location"); at != "../jobs/pulse" {
		t.Errorf("it is stored as %s", at)
	}
	for _, text := range hostile {
		page, _ := p.press(200, "/edit/job", "name", text, "run", text, "when", text, "labels", text, "retries", text, "tell", text)
		p.harmless("the form", page)
	}
}

// The form's file says what was typed, and a file that lacks nothing is a job.
func TestUsualFile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		typed map[string]string
		want  string
		wrong string // part of the problem; "" for none
	}{
		{nil, "name: \"\"\nrun: \"\"\n", "name"},
		{map[string]string{"name": "a", "run": "date"}, "name: a\nrun: date\n", ""},
		{map[string]string{"name": " a ", "run": "cd /srv\r\n./go --all\r\n", "queue": "mail"}, "name: a\nrun: |-\n  cd /srv\n  ./go --all\nqueue: mail\n", ""},
		{map[string]string{"name": "a", "run": "echo 'x: y' # z", "when": "30 2 * * *", "timezone": "Europe/Vienna"}, "name: a\nrun: \"echo 'x: y' # z\"\nschedule:\n  cron: \"30 2 * * *\"\n  timezone: Europe/Vienna\n", ""},
		{map[string]string{"name": "a", "run": "date", "when": "1h30m"}, "name: a\nrun: date\nschedule:\n  every: 1h30m\n", ""},
		{map[string]string{"name": "a", "run": "date", "when": "2030-01-01 12:00"}, "name: a\nrun: date\nschedule:\n  at: \"2030-01-01 12:00\"\n", ""},
		{map[string]string{"name": "a", "run": "date", "timezone": "Europe/Vienna"}, "name: a\nrun: date\n", ""},
		{map[string]string{"name": "a", "run": "date", "labels": "zone=eu", "retries": "3", "tell": "oncall, ann"}, "name: a\nrun: date\nplace:\n  labels: zone=eu\nretry:\n  max: 3\nnotify:\n  to:\n    - oncall\n    - ann\n", ""},
		{map[string]string{"name": "a", "run": "date", "retries": "many"}, "name: a\nrun: date\nretry:\n  max: many\n", "retry.max"},
		{map[string]string{"name": "a b", "run": "date"}, "name: a b\nrun: date\n", "name"},
	} {
		text := usualFile(func(field string) string { return c.typed[field] })
		if text != c.want {
			t.Errorf("of %v it is %q, want %q", c.typed, text, c.want)
		}
		_, err := jobfile.ParseOne("", []byte(text))
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%q: %v, want %q", text, err, c.wrong)
		}
	}
}

// The editors of schedules and calendars find their fields in the document of what can be asked over HTTP, which tells
// those that only the store sets.
func TestSchemasOfEditors(t *testing.T) {
	t.Parallel()
	p := open(t)
	text, err := json.Marshal(httpapi.Document("0"))
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct{ ReadOnly bool }
			}
		}
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[string]string{"schedule": "name notify schedule task", "calendar": "name otherwise rules timezone title"} {
		page, _ := p.get(200, "/edit/"+kind)
		name := strings.TrimPrefix(part(t, page, `data-schema="`, `"`), "../openapi.json#/components/schemas/")
		var fields []string
		for field, is := range doc.Components.Schemas[name].Properties {
			if !is.ReadOnly {
				fields = append(fields, field)
			}
		}
		slices.Sort(fields)
		if got := strings.Join(fields, " "); got != want {
			t.Errorf("%s has the fields %q, want %q", name, got, want)
		}
	}
}
