package birth_test

import (
	"strings"
	"testing"
	"time"

	"millrace/task"
	"millrace/task/birth"
	"millrace/task/duties"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/value"
)

// A birth outside its window waits for a timer, like one that is due later, and its bounds begin
// then.
func TestBirthOutsideOfItsWindow(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	opens := noon.Add(18 * time.Hour)
	spec := job.Spec{Handler: "h", Window: "night", Timeout: job.Timeout{Pending: value.Duration(time.Hour), Total: value.Duration(2 * time.Hour)}}
	born, err := birth.Of(birth.Submission{Spec: &spec}, nil, 0, noon)
	if err != nil || !birth.Windowed(&born) {
		t.Fatal(err)
	}
	birth.Await(&born, opens, task.Shut{Calendar: 3, From: noon, Detail: "outside of the window night"})
	if born.Offers() || !born.StartBy.Equal(opens.Add(time.Hour)) || !born.EndBy.Equal(opens.Add(2*time.Hour)) {
		t.Errorf("the birth is %+v", born)
	}
	is := task.Task{ID: "t"}
	is.Apply(task.Recorded{Seq: 1, At: noon, Event: born})
	if is.State != task.Scheduled || is.Reason != value.Window || is.Message != "outside of the window night" || !is.Due.Equal(opens) {
		t.Errorf("the task is %s/%s until %v: %s", is.State, is.Reason, is.Due, is.Message)
	}
	if d := duties.Owes(is, duties.Surroundings{}, duties.Settings{}); d.Who != "server" || d.What != "the timer offers it when its window opens" || !d.By.Equal(opens) {
		t.Errorf("its duty is %+v", d)
	}
	is.Apply(task.Recorded{Seq: 2, At: opens, Event: task.Due{Route: is.Route}})
	if is.State != task.Pending || is.Reason != "" || is.Message != "" {
		t.Errorf("then the task is %s/%s: %s", is.State, is.Reason, is.Message)
	}
}

// A held task or a parent does not wait for its window at birth.
func TestWindowedBirths(t *testing.T) {
	for name, c := range map[string]struct {
		s    birth.Submission
		want bool
	}{
		"a task":              {birth.Submission{Spec: &job.Spec{Handler: "h", Window: "night"}}, true},
		"under a limit":       {birth.Submission{Spec: &job.Spec{Handler: "h", Window: "night", Concurrency: limit.Concurrencies{{Max: 1}}}}, true},
		"without a window":    {birth.Submission{Spec: &job.Spec{Handler: "h"}}, false},
		"that needs a signal": {birth.Submission{Spec: &job.Spec{Handler: "h", Window: "night", Signal: &job.Signal{Name: "go"}}}, false},
		"a parent":            {birth.Submission{Spec: &job.Spec{Window: "night", Handler: "h", Place: job.Place{Nodes: []string{"a", "b"}, Each: true}}}, false},
	} {
		e, err := birth.Of(c.s, nil, 0, time.Now())
		if err != nil || birth.Windowed(&e) != c.want {
			t.Errorf("%s: %v, %v", name, birth.Windowed(&e), err)
		}
	}
}

// What a submission says of the window replaces what its job says.
func TestWindows(t *testing.T) {
	t.Parallel()
	night, none := "night", ""
	stepped := &job.Spec{Steps: []job.Step{{Name: "a", Spec: job.Spec{Window: "day"}}, {Name: "b", Spec: job.Spec{Window: "day"}}}}
	for name, c := range map[string]struct {
		of   birth.Submission
		job  *job.Spec
		want string
	}{
		"nothing":                  {birth.Submission{}, nil, ""},
		"its own":                  {birth.Submission{Spec: &job.Spec{Window: "own"}}, nil, "own"},
		"that of its job":          {birth.Submission{}, &job.Spec{Window: "job"}, "job"},
		"instead of that of a job": {birth.Submission{Window: &night}, &job.Spec{Window: "job"}, "night"},
		"without that of its job":  {birth.Submission{Window: &none}, &job.Spec{Window: "job"}, ""},
		"those of the steps, once": {birth.Submission{}, stepped, "day"},
		"those of its own steps":   {birth.Submission{Spec: stepped}, nil, "day"},
	} {
		if got := strings.Join(c.of.Windows(c.job), " "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
