package pages

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/projections/view"
	"millrace/service/answers"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/value"
)

// The overview of the present shows recent tasks and how long a job usually takes; that of the past
// has no plots.
func TestOverviewOfLate(t *testing.T) {
	t.Parallel()
	p := open(t)
	id := p.submit(command("date"))
	now := p.client.Now()
	p.Observe([]events.Step{
		{Record: &events.Record{Stored: now.Add(-time.Minute)}, Was: events.Glance{Course: task.Course{State: task.Running}}, Is: events.Glance{Course: task.Course{State: task.Finished}}},
		{Record: &events.Record{Stored: now.Add(-time.Minute)}, Was: events.Glance{Course: task.Course{State: task.Running}}, Is: events.Glance{Course: task.Course{State: task.Error}}},
	})
	page, _ := p.get(200, "/")
	if strings.Count(page, `data-done="0.1"`) != 1 || strings.Count(page, `data-failed="0.1"`) != 1 || !strings.Contains(page, "The oldest pending task has waited since") ||
		!strings.Contains(page, "all <small>since <time") {
		t.Errorf("what came of late is not shown: %s", page)
	}
	if then, _ := p.get(200, "/?at=1"); strings.Contains(then, "data-plot") {
		t.Error("the past has plots")
	}
	if got, err := p.client.Cancel(t.Context(), id, ""); err != nil || got.State != task.Cancelled {
		t.Fatal(got.State, err)
	}
	p.seen()
	if page, _ := p.get(200, "/"); !strings.Contains(page, "No task is pending") {
		t.Error("nothing waits, and the page does not say so")
	}
}

// What is overdue stands on the overview, with who must act on it; of the past it is not said.
func TestOverdue(t *testing.T) {
	t.Parallel()
	p := open(t)
	if page, _ := p.get(200, "/"); !strings.Contains(page, "Nothing needs you.") || strings.Contains(page, "<title>(") {
		t.Errorf("something is there: %s", page)
	}
	s := command("date")
	soon := value.Duration(time.Millisecond)
	s.Pending = &soon
	id := p.submit(s)
	for {
		page, _ := p.get(200, "/")
		if strings.Contains(page, `id="n-overdue-`) {
			if !strings.Contains(page, `id="n-overdue-`+string(id)+`"`) {
				t.Errorf("another task is overdue: %s", page)
			}
			break
		}
	}
	if then, _ := p.get(200, "/?at=1"); strings.Contains(then, `id="n-overdue-`) {
		t.Error("the past has it, too")
	}
}

// What needs a person stands on top, with the button that does it, and its number in the title. Failures of
// one cause are one row.
func TestNeedsYou(t *testing.T) {
	t.Parallel()
	p := open(t)
	approval := command("echo", "go")
	approval.Spec.Signal = &job.Signal{Name: "release"}
	waits := p.submit(approval)
	for i := range 3 {
		p.die(p.submit(command("echo", strconv.Itoa(i))), "order "+strconv.Itoa(4711+i)+" has no lines")
	}
	p.die(p.submit(command("echo", "0")), "the disk is full")
	p.submit(command("echo", "later"))
	if _, err := p.client.PauseQueue(t.Context(), "default", 0, "the source is down"); err != nil {
		t.Fatal(err)
	}
	p.seen()
	page, _ := p.get(200, "/")
	for _, want := range []string{
		"<title>(3) Overview", `value="3"`,
		`id="n-approval-` + string(waits) + `"`, "do/task.signal?id=" + string(waits), "give approval",
		`id="n-paused-default"`, "do/queue.resume?queue=default",
		`id="n-dead-"`, "4</td>",
		"order 4711 has no lines", "the disk is full",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the overview does not say %q: %s", want, page)
		}
	}
	if n := strings.Count(page, `<tr id="failed-`); n != 4 { // "echo 0" to "echo 2" are different commands, and one has two causes
		t.Errorf("failures are %d rows, want 4", n)
	}
	p.press(303, "/do/task.signal?id="+string(waits))
	page, _ = p.get(200, "/")
	if strings.Contains(page, `id="n-approval-`) || !strings.Contains(page, "<title>(2) Overview") {
		t.Errorf("the approval is still there: %s", page)
	}
}

// finished is a world in which some tasks have finished.
type finished struct {
	view.View
	tasks []task.Task
}

func (f finished) List(_ context.Context, q view.Query) (is view.Page, err error) {
	for i := range f.tasks {
		if q.Filter.Match(&f.tasks[i]) {
			is.Tasks = append(is.Tasks, f.tasks[i])
		}
	}
	return is, nil
}

// The usual duration of a task is that of its like: parents count apart from steps, and each step
// apart from others.
func TestUsual(t *testing.T) {
	t.Parallel()
	of := func(step string, ran time.Duration) task.Task {
		is := task.Task{State: task.Finished, Ran: value.Duration(ran)}
		if is.Job, is.Step = "release", step; step != "" {
			is.Parent = "whole"
		}
		return is
	}
	world := finished{tasks: []task.Task{of("", time.Minute), of("build", time.Second), of("ship/0", 3*time.Second), of("ship/1", 5*time.Second)}}
	seen := &look{site: &Site{}, Sight: &answers.Sight{View: world}}
	for step, want := range map[string]figures{"": {1, 0, time.Minute, time.Minute}, "build": {1, 0, time.Second, time.Second}, "ship/7": {2, 0, 3 * time.Second, 5 * time.Second}, "mend": {}} {
		one := of(step, 0)
		if got := seen.usual(t.Context(), &one); got != want {
			t.Errorf("step %q usually takes %v, want %v", step, got, want)
		}
	}
	for like, long := range map[figures]bool{{5, 0, 0, 10 * time.Second}: true, {5, 0, 0, 11 * time.Second}: false, {4, 0, 0, time.Second}: false, {}: false} {
		if like.exceeded(12*time.Second) != long {
			t.Errorf("12s are longer than usual after %v: %v", like, !long)
		}
	}
	child := of("", 0)
	child.Parent = "whole"
	if got := seen.usual(t.Context(), &child); got != (figures{}) {
		t.Errorf("a child without a step usually takes %v, as its parent does", got)
	}
}
