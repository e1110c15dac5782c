package notices

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"millrace/projections/view"
	"millrace/service/answers"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/placement"
)

// ends are tasks that have ended, the latest first.
type ends struct {
	view.View
	view.Summed
	answers.Tracer
	tasks []task.Task
}

func (e ends) List(_ context.Context, q view.Query) (page view.Page, err error) {
	for i := range e.tasks {
		if q.Match(&e.tasks[i]) && len(page.Tasks) < q.Limit {
			page.Tasks = append(page.Tasks, e.tasks[i])
		}
	}
	return page, nil
}

func (e ends) Get(context.Context, view.Ref) (view.Item, error) {
	return view.Item{Task: &e.tasks[0]}, nil
}

func (e ends) LastFailed(context.Context, int) (failed []task.Task, err error) {
	for _, t := range e.tasks {
		if t.State == task.Error {
			failed = append(failed, t)
		}
	}
	return failed, nil
}

// TestRecoveries holds that a job, and a schedule of a command, works again once its last failure has a success after
// it, and that this is told once, if it is news.
func TestRecoveries(t *testing.T) {
	end := func(seq uint64, job, schedule string, state task.State) task.Task {
		is := task.Task{ID: task.ID(fmt.Sprint(seq)), Seq: seq, State: state, EndedAt: noon.Add(time.Duration(seq) * time.Minute)}
		is.Job, is.Schedule = job, schedule
		return is
	}
	step := end(8, "backup", "", task.Finished)
	step.Parent = "5"
	notice := end(5, "", "told", task.Error)
	notice.Route = placement.QueueRoute(job.NoticeQueue, 5)
	for name, c := range map[string]struct {
		tasks []task.Task // the oldest first
		since uint64
		later time.Duration
		want  string
	}{
		"a job":                    {[]task.Task{end(5, "backup", "", task.Error), end(6, "backup", "", task.Finished)}, 5, 0, "backup 6"},
		"a job by two schedules":   {[]task.Task{end(5, "backup", "nightly", task.Error), end(6, "backup", "weekly", task.Finished)}, 5, 0, "backup 6"},
		"a schedule":               {[]task.Task{end(5, "", "pulse", task.Error), end(6, "", "pulse", task.Finished)}, 5, 0, "schedule pulse 6"},
		"a schedule of a job now":  {[]task.Task{end(5, "", "pulse", task.Error), end(6, "backup", "pulse", task.Finished)}, 5, 0, ""},
		"another schedule":         {[]task.Task{end(5, "", "pulse", task.Error), end(6, "", "other", task.Finished)}, 5, 0, ""},
		"a schedule of its name":   {[]task.Task{end(5, "backup", "", task.Error), end(6, "", "backup", task.Finished)}, 5, 0, ""},
		"a failure after it":       {[]task.Task{end(4, "", "pulse", task.Error), end(5, "", "pulse", task.Finished), end(6, "", "pulse", task.Error)}, 0, 0, ""},
		"of a command without one": {[]task.Task{end(5, "", "", task.Error), end(6, "", "", task.Finished)}, 5, 0, ""},
		"a step":                   {[]task.Task{end(5, "backup", "", task.Error), step}, 5, 0, ""},
		"a notice":                 {[]task.Task{notice, end(6, "", "told", task.Finished)}, 5, 0, ""},
		"told before":              {[]task.Task{end(5, "backup", "", task.Error), end(6, "backup", "", task.Finished)}, 6, 0, ""},
		"no news":                  {[]task.Task{end(5, "backup", "", task.Error), end(6, "backup", "", task.Finished)}, 5, news, ""},
	} {
		slices.Reverse(c.tasks)
		of := ends{tasks: c.tasks}
		s := &answers.Sight{View: of, Sums: of, Now: noon.Add(6*time.Minute + c.later)}
		w := &Watch{told: c.since}
		if err := w.lead(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{c.want, ""} { // once
			all, err := w.recoveries(t.Context(), s)
			var got string
			for _, h := range all {
				got += h.Group + " " + string(h.Task)
				if h.Kind != Recovery || h.Job+h.Schedule == "" {
					t.Errorf("%s: it is %+v", name, h)
				}
			}
			if err != nil || got != want {
				t.Errorf("%s: %q works again, want %q: %v", name, got, want, err)
			}
		}
	}
}
