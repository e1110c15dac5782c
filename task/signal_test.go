package task_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"millrace/events/logtest"
	"millrace/task"
	"millrace/task/duties"
	"millrace/task/job"
	"millrace/task/param"
	"millrace/task/value"
)

func TestSignal(t *testing.T) {
	s := held(task.HoldNeeds, task.HoldSignal)
	spec := *s.Spec
	spec.Signal = &job.Signal{Name: "approval", Timeout: value.Duration(time.Hour)}
	s.Spec = &spec
	now := logtest.Given(s)
	if by := duties.SignalBy(&now); !by.IsZero() {
		t.Errorf("the signal is late at %v, and what the task needs has not ended", by)
	}
	now = logtest.Given(s, task.Unheld{Hold: task.HoldNeeds, Inputs: json.RawMessage(`{"a":1}`)})
	if by := duties.SignalBy(&now); !by.Equal(logtest.At(2).Add(time.Hour)) {
		t.Errorf("the signal is late at %v", by)
	}
	d := duties.Owes(now, duties.Surroundings{}, duties.Settings{})
	if _, ok := d.Command.(task.Expire); !ok || d.Who != "operator" || d.Look {
		t.Errorf("it owes %+v", d)
	}
	spec.Signal.OnTimeout = job.SignalGoOn
	if d := duties.Owes(now, duties.Surroundings{}, duties.Settings{}); d.Command != (task.Command)(nil) {
		if c, ok := d.Command.(task.Unhold); !ok || c.Hold != task.HoldSignal {
			t.Errorf("it owes %+v", d)
		}
	}
	inputs, err := now.Awaiting().Inputs("ann", json.RawMessage(`{"ok":true}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	e, err := task.Decide(now, task.Unhold{Hold: task.HoldSignal, Inputs: inputs}, logtest.Noon)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(e.(task.Unheld).Inputs), `{"a":1,"approval":{"by":"ann","data":{"ok":true}}}`; got != want {
		t.Errorf("it is told %s, want %s", got, want)
	}
}

// An answer that is meant for one signal opens, or ends, no other wait.
func TestMeantSignal(t *testing.T) {
	waits := func(step string) []task.Event {
		return logtest.After(logtest.Running, parked(task.Park{Step: step, Kind: task.StepAwait}))
	}
	of := held(task.HoldSignal)
	spec := *of.Spec
	spec.Signal = &job.Signal{}
	of.Spec = &spec
	second := logtest.After(waits("first"), task.Unheld{Hold: task.HoldSignal, Inputs: json.RawMessage(`{"first":{}}`)})
	for name, c := range map[string]struct {
		given  []task.Event
		signal string
		want   error
		says   string
	}{
		"whichever it waits for":         {waits("first"), "", nil, ""},
		"the one that it waits for":      {waits("first"), "first", nil, ""},
		"another one":                    {waits("second"), "first", task.ErrNotHeld, `signal "first"; it waits for "second"`},
		"one that has come":              {second, "first", task.ErrNotHeld, task.HoldSignal},
		"that of a job, of no name":      {[]task.Event{of}, job.DefaultSignal, nil, ""},
		"another one than that of a job": {[]task.Event{of}, "first", task.ErrNotHeld, `it waits for "signal"`},
		"one of a task that has ended":   {logtest.After(waits("first"), task.GivenUp{Reason: value.Rejected}), "first", task.ErrEnded, "abnormal"},
	} {
		is := logtest.Given(c.given...)
		for _, do := range []task.Command{task.Unhold{Hold: task.HoldSignal, Signal: c.signal}, task.Reject{Signal: c.signal}} {
			e, err := task.Decide(is, do, logtest.Noon)
			if !errors.Is(err, c.want) || (e == nil) == (err == nil) || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %T gives %+v, %v", name, do, e, err)
			}
		}
	}
}

// Of several that wait, a name means the step of that name, else those that wait for a signal of that name.
func TestMeant(t *testing.T) {
	waits := func(step, signal string) task.Task {
		return task.Task{Work: task.Work{Step: step, Spec: &job.Spec{Signal: &job.Signal{Name: signal}}}}
	}
	asks := waits("asks", "")
	asks.Durable = &task.Durable{Parked: &task.Parked{Park: task.Park{Step: "price", Kind: task.StepAwait}}}
	all := []task.Task{waits("a", "boss"), waits("b", "boss"), waits("c", "a"), asks, waits("sign/0", "")}
	for name, want := range map[string]string{"": "a b c asks sign/0", "a": "a", "boss": "a b", "price": "asks", "asks": "asks", job.DefaultSignal: "sign/0", "sign/0": "sign/0", "none": ""} {
		var steps []string
		for _, k := range task.Meant(all, name) {
			steps = append(steps, k.Step)
		}
		if got := strings.Join(steps, " "); got != want {
			t.Errorf("%q means %q, want %q", name, got, want)
		}
	}
}

// A function says what answers it takes, and one of an older version, or a wrong fact, does not.
func TestAskedOfAFunction(t *testing.T) {
	form := []param.Param{{Name: "value", Type: param.Integer}}
	for of, p := range map[string]task.Park{
		"":                       {},
		"want a whole number":    {Form: form, Alone: true},
		"are no JSON object":     {Form: form},
		"no form, and one value": {Alone: true},
	} {
		p.Step, p.Kind = "price", task.StepAwait
		is := logtest.Given(logtest.After(logtest.Running, parked(p))...)
		_, err := is.Awaiting().Inputs("ann", json.RawMessage(`"seven"`), nil)
		if want := strings.HasPrefix(of, "want") || strings.HasPrefix(of, "are"); want != (err != nil) || want && !strings.Contains(err.Error(), of) {
			t.Errorf("%q: %v", of, err)
		}
		if _, err := is.Awaiting().Inputs("ann", nil, nil); (err != nil) != (p.Form != nil) {
			t.Errorf("%q, of no answer: %v", of, err)
		}
		_, _ = is.Awaiting().Inputs("ann", nil, map[string]string{"value": "7"}) // does not panic
	}
}

// TestReject refuses a signal: whoever may not, or comes too late, changes nothing.
func TestReject(t *testing.T) {
	s := held(task.HoldNeeds, task.HoldSignal)
	spec := *s.Spec
	spec.Signal = &job.Signal{Name: "approval", Who: []string{"ann"}}
	s.Spec = &spec
	early := logtest.Given(s)
	given := logtest.Given(s, task.Unheld{Hold: task.HoldNeeds}, task.Unheld{Hold: task.HoldSignal})
	ended := logtest.Given(s, task.GivenUp{Reason: value.Expired})
	for _, c := range []struct {
		of   task.Task
		by   string
		want error
	}{{early, "ann", nil}, {early, "bob", job.ErrNotAsked}, {given, "ann", task.ErrNotHeld}, {ended, "ann", task.ErrEnded}, {task.Task{}, "ann", task.ErrUnknown}} {
		e, err := task.Decide(c.of, task.Reject{By: c.by, Detail: "rejected by " + c.by}, logtest.Noon)
		if !errors.Is(err, c.want) || (err == nil) != (e == task.Event(task.GivenUp{Reason: value.Rejected, Detail: "rejected by ann"})) {
			t.Errorf("%s of a task that is %s: %v, %v", c.by, c.of.State, e, err)
		}
	}
	refused := logtest.Given(s, task.GivenUp{Reason: value.Rejected, Detail: "rejected by ann"})
	if !refused.State.Failed() || refused.Dead() {
		t.Errorf("it is %s/%s, a dead letter: %v", refused.State, refused.Reason, refused.Dead())
	}
	if by := early.DecidedBy(task.Reject{By: "ann"}, task.GivenUp{Reason: value.Rejected}); by != nil {
		t.Errorf("the fact names %+v beside the actor", by)
	}
}
