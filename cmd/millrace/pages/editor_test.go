package pages

import (
	"strings"
	"testing"

	"millrace/jet/roles"
	"millrace/task/job"
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
	for _, text := range hostile {
		page, _ := p.press(200, of, "text", text)
		p.harmless("the editor", page)
		page, _ = p.press(200, of, "text", "name: pulse\nschedule: {every: 1h}\ntask: {spec: {run: {argv: [echo, "+pretty(text)+"]}}}\n")
		p.harmless("the preview", page)
	}
	const good = "name: pulse\r\nschedule:\r\n  cron: 30 2 * * *\r\n  timezone: Europe/Vienna\r\ntask:\r\n  job: backup\r\n"
	page, _ = p.press(200, of, "text", good)
	for _, want := range []string{"What changes", "<code>schedule.cron</code>", "When it fires", "Europe/Vienna", "There are no nodes", "do/schedule.apply"} {
		if !strings.Contains(page, want) {
			t.Errorf("the preview does not say %q: %s", want, page)
		}
	}
	fields := map[string]string{}
	for _, e := range elements(t, page) {
		if e.name == "input" && e.attr["type"] == "hidden" {
			fields[e.attr["name"]] = e.attr["value"]
		}
	}
	_, h := p.press(303, "/do/schedule.apply", "name", fields["name"], "definition", fields["definition"], "if_revision", fields["if_revision"], "back", fields["back"])
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
	// Both are removed by a button, which leads to the list; that of a job goes with its job.
	if page, _ := p.get(200, "/schedules/nightly"); strings.Contains(page, "do/schedule.remove") {
		t.Error("the schedule of a job can be removed without it")
	}
	for path, verb := range map[string]string{"/schedules/pulse": "schedule.remove", "/jobs/nightly": "job.remove"} {
		page, _ := p.get(200, path)
		list, name, _ := strings.Cut(path[1:], "/")
		if !strings.Contains(page, "do/"+verb+"?name="+name) || !strings.Contains(page, `name="back" value="/`+list+`"`) {
			t.Errorf("%s has no button that removes it: %s", path, page)
		}
		if _, h := p.press(303, "/do/"+verb+"?name="+name, "back", "/"+list); h.Get("Location") != "../"+list {
			t.Errorf("after it was removed, %s leads to %s", path, h.Get("Location"))
		}
		p.get(404, path)
	}
	p.schedule("pulse", job.Schedule{Every: 3600e9}, "echo", "hello")
	p.as(roles.Viewer)
	if page, _ := p.press(200, of, "text", strings.Replace(good, "30 2", "31 2", 1)); strings.Contains(page, "do/schedule.apply") {
		t.Error("a viewer may store")
	}
	p.as(roles.Submitter)
	p.press(403, of, "text", good)
}
