package task

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/reason"
	"millrace/task/value"
)

// total is a birth with a total timeout of one hour.
func total(s job.Spec) Submitted {
	s.Handler, s.Timeout.Total = "noop", value.Duration(time.Hour)
	e, err := Birth(Submission{Spec: &s}, nil, 0, noon)
	if err != nil {
		panic(err)
	}
	return e
}

func TestTotalTimeout(t *testing.T) {
	by := noon.Add(time.Hour)
	steps := job.Spec{Timeout: job.Timeout{Total: value.Duration(time.Hour)}, Steps: []job.Step{{Name: "a", Spec: job.Spec{Handler: "noop"}}}}
	if err := steps.Validate(); err != nil {
		t.Fatal(err)
	}
	parent, err := Birth(Submission{Spec: &steps}, nil, 0, noon)
	if err != nil {
		t.Fatal(err)
	}
	running := AttemptStarted{Attempt: 1, Node: "n1", Offer: 1}
	long := total(job.Spec{Timeout: job.Timeout{Run: value.Duration(2 * time.Hour), Stop: value.Duration(time.Second)}})
	short := total(job.Spec{Timeout: job.Timeout{Run: value.Duration(time.Minute), Stop: value.Duration(time.Second)}})
	retrying := total(job.Spec{Retry: job.Retry{Max: 3}})
	late := total(job.Spec{Timeout: job.Timeout{Pending: value.Duration(time.Minute)}})
	words := "total timeout: not done by 2026-03-01T13:00:00Z, 1h0m0s after it might begin"
	expire := Expire{Reason: reason.Timeout, Detail: words}
	for name, c := range map[string]struct {
		story []Event
		by    time.Time
		then  Command
	}{
		"pending":                 {[]Event{total(job.Spec{})}, by, expire},
		"pending, bound before":   {[]Event{late}, noon.Add(time.Minute), Expire{Detail: "pending timeout: not started by 2026-03-01T12:01:00Z"}},
		"held by a limit":         {[]Event{total(job.Spec{Concurrency: limit.Concurrencies{{Max: 1}}})}, by, expire},
		"runs, would longer":      {[]Event{long, running}, by.Add(time.Second + StopMargin), nil},
		"runs, would not so long": {[]Event{short, running}, at(2).Add(time.Minute + time.Second + StopMargin), nil},
		"runs, without a bound":   {[]Event{total(job.Spec{Timeout: job.Timeout{Stop: value.Duration(time.Second)}}), running}, by.Add(time.Second + StopMargin), nil},
		"a parent":                {[]Event{parent}, by, Cancel{Reason: words}},
		"a cancelled parent":      {[]Event{parent, CancelRequested{Deadline: at(9)}}, time.Time{}, nil},
	} {
		around := Surroundings{Serving: 1, Seen: at(3)}
		if len(c.story) > 1 {
			around.Seen = c.by // before the deadline the next renewal of its lease counts
		}
		d := Owes(given(c.story...), around, settings)
		if name == "a cancelled parent" {
			if d.Command != nil {
				t.Errorf("%s: %+v", name, d)
			}
			continue
		}
		if lose, ok := d.Command.(Lose); ok && c.then == nil && lose.Reason != "" {
			d.Command = nil
		}
		if !d.By.Equal(c.by) || d.Look || !reflect.DeepEqual(d.Command, c.then) || d.Else == "" {
			t.Errorf("%s: got\n%+v\nwant by %v\n%+v", name, d, c.by, c.then)
		}
	}

	// Commands that are refused because the time is up, or would be.
	if e, err := Decide(given(total(job.Spec{})), Claim{Node: "n1", Offer: 1}, by); err != nil || e != (GivenUp{Reason: reason.Timeout, Detail: words}) {
		t.Errorf("a claim after the end: %+v, %v", e, err)
	}
	e, err := Decide(given(retrying, running), Fail{Epoch: 2, Class: reason.Exit}, by.Add(-time.Millisecond))
	if failed := e.(AttemptFailed); err != nil || failed.Retry != nil || !strings.Contains(failed.Reason, "timeout.total") {
		t.Errorf("a failure just before the end: %+v, %v", e, err)
	}
	if e, _ = Decide(given(retrying, running), Fail{Epoch: 2, Class: reason.Exit}, at(3)); e.(AttemptFailed).Retry == nil {
		t.Error("a failure in time is not retried")
	}
	if e, _ := Decide(given(short, running), Extend{Epoch: 2, Until: by.Add(time.Hour)}, at(3)); e.(AttemptExtended).Until.After(by) {
		t.Errorf("more time than there is: %+v", e)
	}
	if _, err := Decide(given(total(job.Spec{}), running), expire, by); err == nil {
		t.Error("what runs expires")
	}

	// A reopened task begins a new bound, and the children of a parent have no bound of their own.
	again := given(total(job.Spec{}), GivenUp{Reason: reason.Timeout}, Reopened{})
	if want := at(3).Add(time.Hour); !again.EndBy.Equal(want) {
		t.Errorf("another life ends by %v, want %v", again.EndBy, want)
	}
	p := given(parent, Expanded{Children{Names: []string{"a"}}})
	if child := Child(&p, "a"); !child.EndBy.IsZero() {
		t.Errorf("its child ends by %v", child.EndBy)
	}
	fans := given(total(job.Spec{Place: job.Place{Nodes: []string{"n1", "n2"}, Each: true}}), Expanded{Children{Names: []string{"n1", "n2"}}})
	if child := Child(&fans, "n1"); !child.EndBy.IsZero() || child.Spec.Timeout.Total != 0 {
		t.Errorf("its child ends by %v", child.EndBy)
	}

	// The reason of the cancel decides the end.
	ends := map[ID]End{ChildID(p.ID, "a"): {State: Cancelled, Reason: reason.User}}
	for when, want := range map[time.Time]State{at(5): Cancelled, by: Error} {
		stopped := Evolve(p, Recorded{Seq: 9, Chain: true, At: when, Event: CancelRequested{Deadline: when.Add(time.Minute)}})
		c, ok := Follow(&stopped, ends)
		if got, _ := c.(Conclude); !ok || got.State != want || want == Error && got.Reason != reason.Timeout {
			t.Errorf("cancelled at %v it becomes %+v, want %s", when, c, want)
		}
	}

	// While other tasks hold it, its time does not begin.
	needy := held(HoldNeeds, HoldLimit)
	needy.Spec = total(job.Spec{}).Spec
	if waits := given(needy); !waits.EndBy.IsZero() {
		t.Errorf("while it needs others it ends by %v", waits.EndBy)
	}
	if free := given(needy, Unheld{Hold: HoldNeeds}); !free.EndBy.Equal(at(2).Add(time.Hour)) {
		t.Errorf("let go it ends by %v", free.EndBy)
	}
}
