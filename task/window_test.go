package task

import (
	"testing"
	"time"

	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/reason"
	"millrace/task/value"
)

// A birth outside its window waits for a timer, like one that is due later, and its bounds begin
// then.
func TestBirthOutsideOfItsWindow(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	opens := noon.Add(18 * time.Hour)
	spec := job.Spec{Handler: "h", Window: "night", Timeout: job.Timeout{Pending: value.Duration(time.Hour), Total: value.Duration(2 * time.Hour)}}
	birth, err := Birth(Submission{Spec: &spec}, nil, 0, noon)
	if err != nil || !birth.Windowed() {
		t.Fatal(err)
	}
	birth.Await(opens, Shut{Calendar: 3, From: noon, Detail: "outside of the window night"})
	if birth.Offers() || !birth.StartBy.Equal(opens.Add(time.Hour)) || !birth.EndBy.Equal(opens.Add(2*time.Hour)) {
		t.Errorf("the birth is %+v", birth)
	}
	is := Task{ID: "t"}
	is.Apply(Recorded{Seq: 1, At: noon, Event: birth})
	if is.State != Scheduled || is.Reason != reason.Window || is.Message != "outside of the window night" || !is.Due.Equal(opens) {
		t.Errorf("the task is %s/%s until %v: %s", is.State, is.Reason, is.Due, is.Message)
	}
	if d := Owes(is, Surroundings{}, Settings{}); d.Who != "server" || d.What != "the timer offers it when its window opens" || !d.By.Equal(opens) {
		t.Errorf("its duty is %+v", d)
	}
	is.Apply(Recorded{Seq: 2, At: opens, Event: Due{Route: is.Route}})
	if is.State != Pending || is.Reason != "" || is.Message != "" {
		t.Errorf("then the task is %s/%s: %s", is.State, is.Reason, is.Message)
	}
}

// A held task or a parent does not wait for its window at birth.
func TestWindowedBirths(t *testing.T) {
	for name, c := range map[string]struct {
		s    Submission
		want bool
	}{
		"a task":              {Submission{Spec: &job.Spec{Handler: "h", Window: "night"}}, true},
		"under a limit":       {Submission{Spec: &job.Spec{Handler: "h", Window: "night", Concurrency: limit.Concurrencies{{Max: 1}}}}, true},
		"without a window":    {Submission{Spec: &job.Spec{Handler: "h"}}, false},
		"that needs a signal": {Submission{Spec: &job.Spec{Handler: "h", Window: "night", Signal: &job.Signal{Name: "go"}}}, false},
		"a parent":            {Submission{Spec: &job.Spec{Window: "night", Handler: "h", Place: job.Place{Nodes: []string{"a", "b"}, Each: true}}}, false},
	} {
		e, err := Birth(c.s, nil, 0, time.Now())
		if err != nil || e.Windowed() != c.want {
			t.Errorf("%s: %v, %v", name, e.Windowed(), err)
		}
	}
}
