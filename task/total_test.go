package task_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"millrace/events/logtest"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/duties"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/value"
)

// total is a birth with a total timeout of one hour.
func total(s job.Spec) task.Submitted {
	s.Handler, s.Timeout.Total = "noop", value.Duration(time.Hour)
	e, err := birth.Of(birth.Submission{Spec: &s}, nil, 0, logtest.Noon)
	if err != nil {
		panic(err)
	}
	return e
}

func TestTotalTimeout(t *testing.T) {
	by := logtest.Noon.Add(time.Hour)
	steps := job.Spec{Timeout: job.Timeout{Total: value.Duration(time.Hour)}, Steps: []job.Step{{Name: "a", Spec: job.Spec{Handler: "noop"}}}}
	if err := steps.Validate(); err != nil {
		t.Fatal(err)
	}
	parent, err := birth.Of(birth.Submission{Spec: &steps}, nil, 0, logtest.Noon)
	if err != nil {
		t.Fatal(err)
	}
	running := task.AttemptStarted{Attempt: 1, Node: "n1", Offer: 1}
	long := total(job.Spec{Timeout: job.Timeout{Run: value.Duration(2 * time.Hour), Stop: value.Duration(time.Second)}})
	short := total(job.Spec{Timeout: job.Timeout{Run: value.Duration(time.Minute), Stop: value.Duration(time.Second)}})
	retrying := total(job.Spec{Retry: job.Retry{Max: 3}})
	late := total(job.Spec{Timeout: job.Timeout{Pending: value.Duration(time.Minute)}})
	words := "total timeout: not done by 2026-03-01T13:00:00Z, 1h0m0s after it might begin"
	expire := task.Expire{Reason: value.Timeout, Detail: words}
	for name, c := range map[string]struct {
		story []task.Event
		by    time.Time
		then  task.Command
	}{
		"pending":                 {[]task.Event{total(job.Spec{})}, by, expire},
		"pending, bound before":   {[]task.Event{late}, logtest.Noon.Add(time.Minute), task.Expire{Detail: "pending timeout: not started by 2026-03-01T12:01:00Z"}},
		"held by a limit":         {[]task.Event{total(job.Spec{Concurrency: limit.Concurrencies{{Max: 1}}})}, by, expire},
		"runs, would longer":      {[]task.Event{long, running}, by.Add(time.Second + task.StopMargin), nil},
		"runs, would not so long": {[]task.Event{short, running}, logtest.At(2).Add(time.Minute + time.Second + task.StopMargin), nil},
		"runs, without a bound":   {[]task.Event{total(job.Spec{Timeout: job.Timeout{Stop: value.Duration(time.Second)}}), running}, by.Add(time.Second + task.StopMargin), nil},
		"a parent":                {[]task.Event{parent}, by, task.Cancel{Reason: words}},
		"a cancelled parent":      {[]task.Event{parent, task.CancelRequested{Deadline: logtest.At(9)}}, time.Time{}, nil},
	} {
		around := duties.Surroundings{Serving: 1, Seen: logtest.At(3)}
		if len(c.story) > 1 {
			around.Seen = c.by // before the deadline the next renewal of its lease counts
		}
		d := duties.Owes(logtest.Given(c.story...), around, logtest.Settings)
		if name == "a cancelled parent" {
			if d.Command != nil {
				t.Errorf("%s: %+v", name, d)
			}
			continue
		}
		if lose, ok := d.Command.(task.Lose); ok && c.then == nil && lose.Reason != "" {
			d.Command = nil
		}
		if !d.By.Equal(c.by) || d.Look || !reflect.DeepEqual(d.Command, c.then) || d.Else == "" {
			t.Errorf("%s: got\n%+v\nwant by %v\n%+v", name, d, c.by, c.then)
		}
	}

	// Commands that are refused because the time is up, or would be.
	if e, err := task.Decide(logtest.Given(total(job.Spec{})), task.Claim{Node: "n1", Offer: 1}, by); err != nil || e != (task.GivenUp{Reason: value.Timeout, Detail: words}) {
		t.Errorf("a claim after the end: %+v, %v", e, err)
	}
	e, err := task.Decide(logtest.Given(retrying, running), task.Fail{Epoch: 2, Class: value.Exit}, by.Add(-time.Millisecond))
	if failed := e.(task.AttemptFailed); err != nil || failed.Retry != nil || !strings.Contains(failed.Reason, "timeout.total") {
		t.Errorf("a failure just before the end: %+v, %v", e, err)
	}
	if e, _ = task.Decide(logtest.Given(retrying, running), task.Fail{Epoch: 2, Class: value.Exit}, logtest.At(3)); e.(task.AttemptFailed).Retry == nil {
		t.Error("a failure in time is not retried")
	}
	if e, _ := task.Decide(logtest.Given(short, running), task.Extend{Epoch: 2, Until: by.Add(time.Hour)}, logtest.At(3)); e.(task.AttemptExtended).Until.After(by) {
		t.Errorf("more time than there is: %+v", e)
	}
	if _, err := task.Decide(logtest.Given(total(job.Spec{}), running), expire, by); err == nil {
		t.Error("what runs expires")
	}

	// A reopened task begins a new bound, and the children of a parent have no bound of their own.
	again := logtest.Given(total(job.Spec{}), task.GivenUp{Reason: value.Timeout}, task.Reopened{})
	if want := logtest.At(3).Add(time.Hour); !again.EndBy.Equal(want) {
		t.Errorf("another life ends by %v, want %v", again.EndBy, want)
	}
	p := logtest.Given(parent, task.Expanded{task.Children{Names: []string{"a"}}})
	if child := birth.Births(&p)("a"); !child.EndBy.IsZero() {
		t.Errorf("its child ends by %v", child.EndBy)
	}
	fans := logtest.Given(total(job.Spec{Place: job.Place{Nodes: []string{"n1", "n2"}, Each: true}}), task.Expanded{task.Children{Names: []string{"n1", "n2"}}})
	if child := birth.Births(&fans)("n1"); !child.EndBy.IsZero() || child.Spec.Timeout.Total != 0 {
		t.Errorf("its child ends by %v", child.EndBy)
	}

	// The reason of the cancel decides the end.
	ends := map[task.ID]task.End{birth.ChildID(p.ID, "a"): {State: task.Cancelled, Reason: value.User}}
	for when, want := range map[time.Time]task.State{logtest.At(5): task.Cancelled, by: task.Error} {
		stopped := task.Evolve(p, task.Recorded{Seq: 9, Chain: true, At: when, Event: task.CancelRequested{Deadline: when.Add(time.Minute)}})
		c, ok := birth.Follow(&stopped, ends)
		if got, _ := c.(task.Conclude); !ok || got.State != want || want == task.Error && got.Reason != value.Timeout {
			t.Errorf("cancelled at %v it becomes %+v, want %s", when, c, want)
		}
	}

	// While other tasks hold it, its time does not begin.
	needy := held(task.HoldNeeds, task.HoldLimit)
	needy.Spec = total(job.Spec{}).Spec
	if waits := logtest.Given(needy); !waits.EndBy.IsZero() {
		t.Errorf("while it needs others it ends by %v", waits.EndBy)
	}
	if free := logtest.Given(needy, task.Unheld{Hold: task.HoldNeeds}); !free.EndBy.Equal(logtest.At(2).Add(time.Hour)) {
		t.Errorf("let go it ends by %v", free.EndBy)
	}
}
