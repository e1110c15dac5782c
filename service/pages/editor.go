package pages

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"millrace/events/jet/definitions"
	"millrace/events/jet/rights"
	"millrace/projections/view"
	"millrace/service/answers"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/condition"
	"millrace/task/job"
	"millrace/task/jobfile"
	"millrace/task/schedule"
	"millrace/task/value"
)

var editorPage = page{name: "editor", path: "/edit/{kind}", verb: rights.JobGet, takesForm: true, show: showEditor}

// editors are those of the kinds of definitions.
var editors = map[string]*editor{task.DefJob: &jobEditor, task.DefSchedule: &scheduleEditor, task.DefCalendar: &calendarEditor}

// editor is what the editors of jobs, schedules and calendars differ in.
type editor struct {
	// Kind is job, schedule or calendar, Verb stores one, and Pages is where they have pages.
	Kind  string
	Verb  rights.Verb
	Pages string
	// Command takes the text as well.
	Command string
	// Blank is the text of a new one, and Schema has its fields; "" for the schema of job files.
	Blank, Schema string
	// parse reads a text; with a name it must have that one.
	parse func(name, text string) (draft, error)
	// stored returns one with its text, and its revision. The error is an [elsewhere] if it is edited
	// on another page.
	stored func(ctx context.Context, l *look, name string) (is draft, text string, revision uint64, err error)
	// none is the error where there is none of a name.
	none error
}

// draft is a parsed text.
type draft struct {
	name  string
	value any // as the service takes it
	// of is the job of which it makes tasks; "" if spec has what they do.
	of   string
	spec job.Spec
	make birth.Submission
	// timed are the schedules that come with it, or itself.
	timed []schedule.Definition
	// opens is the calendar; nil if it is none: a calendar makes no tasks.
	opens *schedule.Calendar
}

var jobEditor = editor{
	Kind: task.DefJob, Verb: rights.JobApply, Pages: "jobs", Command: "millrace job apply -f FILE", Blank: "name: hello\nrun: echo hello\n", none: definitions.ErrNoJob,
	parse: func(name, text string) (draft, error) {
		is, err := jobfile.ParseOne(name, []byte(text))
		if err == nil {
			err = condition.Compiles(&is)
		}
		return draftOfJob(is), err
	},
	stored: func(ctx context.Context, l *look, name string) (draft, string, uint64, error) {
		is, err := l.job(ctx, name)
		return draftOfJob(is.Job), fileOf(&is.Job), is.Revision, err
	},
}

func draftOfJob(is job.Job) draft {
	return draft{name: is.Name, value: is, spec: is.Spec, timed: schedule.OfJob(&is)}
}

var scheduleEditor = editor{
	Kind: task.DefSchedule, Verb: rights.ScheduleApply, Pages: "schedules", Command: "millrace schedule add -f FILE", none: definitions.ErrNoSchedule,
	Schema: "openapi.json#/components/schemas/schedule.Definition",
	Blank:  "name: pulse\nschedule:\n  every: 1h\ntask:\n  spec:\n    run:\n      argv: [echo, hello]\n",
	parse: func(name, text string) (draft, error) {
		is, err := jobfile.ParseSchedule("", name, []byte(text))
		return draftOfSchedule(is), err
	},
	stored: func(ctx context.Context, l *look, name string) (draft, string, uint64, error) {
		of, err := l.Get(ctx, view.Definition(task.Named(task.DefSchedule, name)))
		if err != nil {
			return draft{}, "", 0, err
		}
		is, err := definitions.ScheduleIn(name, *of.Definition)
		if err == nil && is.OfJob {
			err = elsewhere("/edit/job?name=" + is.Make.Job)
		}
		text, bad := jobfile.MarshalSchedule(is.Definition)
		if bad != nil {
			text = []byte(pretty(draftOfSchedule(is.Definition).value))
		}
		return draftOfSchedule(is.Definition), string(text), is.Revision, err
	},
}

func draftOfSchedule(is schedule.Definition) draft {
	d := draft{name: is.Name, value: schedule.Definition{Name: is.Name, When: is.When, Make: is.Make}, of: is.Make.Job, make: is.Make}
	d.timed = []schedule.Definition{d.value.(schedule.Definition)}
	if is.Make.Spec != nil {
		d.spec = *is.Make.Spec
	}
	return d
}

// beginnings are the files that a new job can begin with: templates/begin-NAME.yaml.
var beginnings = []struct{ Name, Title string }{
	{"nightly", "a command at night"}, {"crawler", "a crawler with limits"}, {"release", "steps with an approval"},
	{"handler", "a handler in Go"}, {"webhook", "a webhook"},
}

// usual are the fields of the form that writes the file of a common job.
var usual = []Field{
	{Name: "name", Label: "Name", Kind: Text, About: "letters, digits, _ and -", Required: true},
	{Name: "run", Label: "Command", Kind: Lines, About: "what a shell would run", Required: true},
	{Name: "when", Label: "When", Kind: Text, About: "a cron expression such as 30 2 * * *, an interval such as 15m, or a time; empty: when it is run by hand"},
	{Name: "timezone", Label: "Time zone", Kind: Text, About: "such as Europe/Vienna; empty: UTC"},
	{Name: "queue", Label: "Queue", Kind: Text, About: "of the nodes that may run it; empty: default"},
	{Name: "labels", Label: "Labels of the node", Kind: Text, About: "such as gpu or zone=eu; empty: any node of the queue"},
	{Name: "retries", Label: "Retries", Kind: Whole, Min: "0", About: "how often it is tried again after a failure; empty: never"},
	{Name: "tell", Label: "Who is told", Kind: Text, About: "of failures and of recovery: targets of the servers' notices, with commas between them"},
}

// usualFile returns the file of a common job. Parse says what is wrong with what was typed.
func usualFile(typed func(field string) string) string {
	is := func(field string) string { return strings.TrimSpace(strings.ReplaceAll(typed(field), "\r\n", "\n")) }
	var file struct {
		Name     string              `json:"name"`
		Run      string              `json:"run"`
		Schedule map[string]string   `json:"schedule,omitempty"`
		Queue    string              `json:"queue,omitempty"`
		Place    map[string]string   `json:"place,omitempty"`
		Retry    map[string]any      `json:"retry,omitempty"`
		Notify   map[string][]string `json:"notify,omitempty"`
	}
	file.Name, file.Run, file.Queue = is("name"), is("run"), is("queue")
	if when := is("when"); when != "" {
		kind := "cron"
		if _, err := value.ParseDuration(when); err == nil {
			kind = "every"
		} else if _, ok := value.ParseWall(when); ok {
			kind = "at"
		}
		file.Schedule = map[string]string{kind: when}
		if zone := is("timezone"); zone != "" {
			file.Schedule["timezone"] = zone
		}
	}
	if labels := is("labels"); labels != "" {
		file.Place = map[string]string{"labels": labels}
	}
	if retries := is("retries"); retries != "" {
		file.Retry = map[string]any{"max": retries}
		if n, err := strconv.Atoi(retries); err == nil {
			file.Retry["max"] = n
		}
	}
	if to := strings.FieldsFunc(is("tell"), func(r rune) bool { return r == ',' || r == ' ' }); len(to) > 0 {
		file.Notify = map[string][]string{"to": to}
	}
	return jobfile.Draft(file)
}

type editorData struct {
	*editor
	// Beginnings are files that a new job can begin with, and Usual the form that writes one; none of
	// what has a name already.
	Beginnings []struct{ Name, Title string }
	Usual      []Field
	// Name is that of the edited one, "" for a new one; Is is the name in the text.
	Name, Is, Text string
	// Seen is the revision that the text was made from, 0 for none.
	Seen string
	// Stale tells that another user has changed it since.
	Stale bool
	// Problems are the problems of the text; if there are none, the rest says what storing it would
	// do.
	Problems []jobfile.Problem
	Checked  bool
	// Definition is the text as the service takes it.
	Definition string
	New        bool
	Changes    []view.Change
	Plan       *view.Plan
	PlanWrong  panel
	Coming     []ticksToCome
	// Spans are when the calendar is open and closed, on the clock of Zone, and Uses what goes by it.
	Zone      string
	Spans     []spanRow
	Uses      *client.CalendarUses
	UsesWrong panel
}

func showEditor(ctx context.Context, l *look) (any, error) {
	e := editors[l.r.PathValue("kind")]
	if e == nil {
		return nil, answers.ErrNothing
	}
	d := &editorData{editor: e, Name: l.Asked("name"), Text: strings.ReplaceAll(l.typed.Get("text"), "\r\n", "\n"), Checked: l.typed.Has("text")}
	l.Title = "New " + e.Kind
	if d.Name != "" {
		if err := value.ValidName(e.Kind, d.Name); err != nil {
			return nil, client.Wrong(err)
		}
		l.Title = "Edit " + e.Kind + " " + d.Name
	}
	d.Seen = l.typed.Get("seen")
	if e == &jobEditor && d.Name == "" {
		d.Beginnings, d.Usual = beginnings, slices.Clone(usual)
		for i := range d.Usual {
			d.Usual[i].Value = l.typed.Get(d.Usual[i].Name)
		}
		if l.typed.Has("run") { // the form was sent
			d.Text, d.Seen, d.Checked = usualFile(l.typed.Get), "0", true
		}
	}
	if !d.Checked {
		d.Text, d.Seen = e.Blank, "0"
		switch begin := l.Asked("begin"); {
		case begin != "":
			text, err := templates.ReadFile("templates/begin-" + begin + ".yaml")
			if err != nil || d.Beginnings == nil {
				return nil, client.Wrongf("begin is %.40q, and no job begins with it", begin)
			}
			d.Text = string(text)
		case d.Name != "":
			_, text, revision, err := e.stored(ctx, l, d.Name)
			if err != nil {
				return nil, err
			}
			d.Text, d.Seen = text, strconv.FormatUint(revision, 10)
		}
		return d, nil
	}
	is, err := e.parse(d.Name, d.Text)
	if err == nil {
		return d, d.foresee(ctx, l, &is)
	}
	if wrong, ok := errors.AsType[jobfile.Errors](err); ok {
		d.Problems = wrong
	} else {
		d.Problems = []jobfile.Problem{{Message: err.Error()}}
	}
	return d, nil
}

// job returns a job at the moment of the sight.
func (l *look) job(ctx context.Context, name string) (definitions.StoredJob, error) {
	is, err := l.Get(ctx, view.Definition(task.Named(task.DefJob, name)))
	if err != nil {
		return definitions.StoredJob{}, err
	}
	return definitions.JobIn(name, *is.Definition)
}

// see records the current revision. For a new one, the user learns of an existing one when the text
// is checked.
func (d *editorData) see(revision uint64) {
	is := strconv.FormatUint(revision, 10)
	if d.Name == "" {
		d.Seen = is
	}
	d.Stale = d.Seen != "" && d.Seen != is
}

// foresee says what storing the text would do.
func (d *editorData) foresee(ctx context.Context, l *look, is *draft) error {
	text, err := value.JSON(is.value)
	if err != nil {
		return err
	}
	d.Is, d.Definition = is.name, string(text)
	var was any = struct{}{}
	var to elsewhere
	switch stored, _, revision, err := d.stored(ctx, l, is.name); {
	case err == nil:
		was = stored.value
		d.see(revision)
	case errors.Is(err, d.none):
		d.New = true
		d.see(0)
	case errors.As(err, &to):
		d.Problems = []jobfile.Problem{{Path: "name", Message: "the schedule of this name is part of a job: edit the job, or choose another name"}}
		return nil
	default:
		return err
	}
	if d.Changes, err = view.DiffValues(was, is.value); err != nil {
		return err
	}
	if is.opens != nil {
		d.Spans, d.Zone = spansOf(is.opens, l.Now), cmp.Or(is.opens.Timezone, "UTC")
		if hours, err := is.opens.Hours(); err == nil {
			if _, ever := hours.Opens(l.Now); !ever {
				d.Problems = []jobfile.Problem{{Message: schedule.ErrNeverOpen.Error()}}
			}
		}
		uses, err := client.CalendarUsesOf(ctx, l.View)
		d.UsesWrong.fail(err)
		d.Uses = uses[is.name]
		return nil
	}
	of := job.Job{Name: is.name, Spec: is.spec}
	if is.of != "" {
		stored, err := l.job(ctx, is.of)
		if err == nil {
			err = is.make.Fits(&stored.Job)
		}
		if err != nil {
			d.Problems = []jobfile.Problem{{Path: "task", Message: err.Error()}}
			return nil
		}
		of = stored.Job
	} else if j, ok := is.value.(job.Job); ok {
		of = j
	}
	plans, err := view.PlanJobs(ctx, l.View, []job.Job{of}, is.make, l.Now)
	if d.PlanWrong.fail(err); err == nil {
		d.Plan = &plans[0]
	}
	d.foreseeTicks(ctx, l, is.timed)
	return nil
}

// foreseeTicks says what stored schedules would do, or why they cannot be stored.
func (d *editorData) foreseeTicks(ctx context.Context, l *look, timed []schedule.Definition) {
	for i := range timed {
		of := &timed[i]
		err := client.RefusesSchedule(*of, func(name string) (schedule.Stored, error) {
			is, err := l.Get(ctx, view.Definition(task.Named(task.DefSchedule, name)))
			if err != nil {
				return schedule.Stored{}, err
			}
			return definitions.ScheduleIn(name, *is.Definition)
		}, l.Now)
		var plan *schedule.Plan
		if err == nil {
			plan, err = schedule.Compile(of.Name, of.When, l.Now)
		}
		if err != nil {
			d.Problems = append(d.Problems, jobfile.Problem{Path: "schedule", Message: err.Error()})
			continue
		}
		ticks := ticksToCome{Zone: plan.Zone().String(), Remark: plan.Remark(), Ticks: comingOf(plan, l.Now, became{"to come", task.Scheduled})}
		if len(timed) > 1 {
			ticks.Name = of.Name
		}
		d.Coming = append(d.Coming, ticks)
	}
}

// ticksToCome are the next ticks of a schedule; Name is one of several.
type ticksToCome struct {
	Name, Zone, Remark string
	Ticks              []tickRow
}
