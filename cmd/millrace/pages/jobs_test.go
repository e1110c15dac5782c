package pages

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"millrace/jet"
	"millrace/task"
)

// job stores one where pages find it.
func (p *place) job(name string, argv ...string) {
	p.Helper()
	j := task.Job{Name: name, Spec: task.Spec{Run: &task.Run{Argv: argv}}}
	if _, _, err := p.client.Apply(p.Context(), j); err != nil {
		p.Fatal(err)
	}
	p.seen()
}

func TestJobs(t *testing.T) {
	t.Parallel()
	p := open(t)
	has := func(page string, texts ...string) {
		t.Helper()
		for _, text := range texts {
			if !strings.Contains(page, text) {
				t.Errorf("a page does not say %q", text)
			}
		}
		p.harmless("a page", page)
	}
	page, _ := p.get(200, "/jobs")
	has(page, "There are no jobs yet", "New job")
	p.job("backup", "pg_dump", "shop")
	first := p.server.Desk.Reached()
	p.job("backup", "pg_dump", "--all")
	id := p.submit(task.Submission{Job: "backup"})
	page, _ = p.get(200, "/jobs")
	has(page, "./jobs/backup", "pg_dump --all", "/tasks/"+string(id))
	page, _ = p.get(200, "/jobs/backup")
	has(page, "pg_dump", "--all", "revision", "<code>run.argv</code>", "&#34;shop&#34;", id.Short(), "do/task.submit", "Of the latest 1: 0 failed", fmt.Sprintf("at=%d", first))
	page, _ = p.get(200, fmt.Sprintf("/jobs/backup?at=%d", first))
	has(page, "as of then", "shop")
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

// What is typed into the editor says what would come of it; nothing is stored until somebody has seen that.
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
	for _, text := range hostile {
		page, _ := p.press(200, of, "text", text)
		p.harmless("the editor", page)
		page, _ = p.press(200, of, "text", "name: backup\nrun:\n  argv: [echo, "+pretty(text)+"]\n")
		p.harmless("the preview", page)
	}
	const good = "name: backup\r\nrun: [pg_dump, --all]\r\nschedule:\r\n  cron: 30 2 * * *\r\n  timezone: Europe/Vienna\r\n"
	page, _ = p.press(200, of, "text", good)
	for _, want := range []string{"What changes", "<code>run.argv</code>", "When it fires", "02:30:00 &#43;0", "There are no nodes", "do/job.apply"} {
		if !strings.Contains(page, want) {
			t.Errorf("the preview does not say %q", want)
		}
	}
	if is, err := p.client.Job(t.Context(), "backup"); err != nil || is.Run.Argv[1] != "shop" {
		t.Errorf("who only looks has stored %+v, %v", is.Run, err)
	}
	fields := map[string]string{}
	for _, e := range elements(t, page) {
		if e.name == "input" && e.attr["type"] == "hidden" {
			fields[e.attr["name"]] = e.attr["value"]
		}
	}
	_, h := p.press(303, "/do/job.apply", "name", fields["name"], "definition", fields["definition"], "back", fields["back"])
	if is, err := p.client.Job(t.Context(), "backup"); err != nil || is.Run.Argv[1] != "--all" || is.Schedule == nil || h.Get("Location") != "../jobs/backup" {
		t.Errorf("it is %+v, %v, at %s", is.Run, err, h.Get("Location"))
	}
	if page, _ = p.press(200, of, "text", good); !strings.Contains(page, "Nothing changes") || strings.Contains(page, "do/job.apply") {
		t.Error("what is there already can be stored again")
	}
	p.as(jet.RoleViewer)
	if page, _ = p.press(200, of, "text", "name: backup\nrun: x\n"); strings.Contains(page, "do/job.apply") {
		t.Error("a viewer may store")
	}
	p.as(jet.RoleSubmitter)
	p.press(403, of, "text", good)
	p.as("")
	p.press(401, of, "text", good)
}

func TestFigures(t *testing.T) {
	t.Parallel()
	if got := figuresOf(nil); got != (figures{}) {
		t.Errorf("of none they are %+v", got)
	}
	var tasks []task.Task
	for i := range 100 {
		tasks = append(tasks, task.Task{State: task.Finished, Ran: task.Duration((100 - i)) * task.Duration(time.Second)})
	}
	tasks = append(tasks, task.Task{State: task.Error, Ran: task.Duration(time.Hour)}, task.Task{State: task.Abnormal}, task.Task{State: task.Running})
	if got, want := figuresOf(tasks), (figures{103, 2, 50 * time.Second, 95 * time.Second}); got != want {
		t.Errorf("they are %+v, want %+v", got, want)
	}
	if got := figuresOf(tasks[:1]); got.P50 != 100*time.Second || got.P95 != 100*time.Second {
		t.Errorf("of one they are %+v", got)
	}
}
