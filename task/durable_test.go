package task_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"millrace/events/logtest"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/value"
)

// done is a step of a function that gave a result, and open one that failed and is tried again.
func done(name string) task.Step {
	return task.Step{Name: name, Kind: task.StepDo, Result: json.RawMessage(`1`)}
}

func open(name string) task.Step {
	return task.Step{Name: name, Kind: task.StepDo, Error: "busy", Tries: 1, Open: true}
}

func stepped(first int, steps ...task.Step) task.Event {
	return task.AttemptStepped{Attempt: 1, Epoch: 2, First: first, Steps: steps}
}

func parked(p task.Park) task.Event { return task.AttemptParked{Attempt: 1, Epoch: 2, Park: p} }

// Each step is recorded once, by the attempt that runs, within bounds.
func TestRemember(t *testing.T) {
	one, large := logtest.After(logtest.Running, stepped(0, done("a"))), done("b")
	large.Result = json.RawMessage(strings.Repeat("1", task.MaxStepResult+1))
	apart, tooLarge := done("b"), done("b")
	apart.Result, apart.Digest, apart.Size = nil, "f1d0", task.MaxStepApart
	tooLarge.Result, tooLarge.Digest, tooLarge.Size = nil, "f1d0", task.MaxStepApart+1
	var full []task.Step
	for range task.MaxStepsSize / task.MaxStepResult {
		s := done("b")
		s.Result = json.RawMessage(strings.Repeat("1", task.MaxStepResult))
		full = append(full, s)
	}
	for name, c := range map[string]struct {
		given   []task.Event
		command task.Remember
		err     error
	}{
		"the first":                     {logtest.Running, task.Remember{Epoch: 2, Steps: []task.Step{done("a")}}, nil},
		"the second":                    {one, task.Remember{Epoch: 2, First: 1, Steps: []task.Step{done("b")}}, nil},
		"one again":                     {one, task.Remember{Epoch: 2, First: 0, Steps: []task.Step{done("a")}}, task.ErrMovedOn},
		"with a gap":                    {one, task.Remember{Epoch: 2, First: 2, Steps: []task.Step{done("c")}}, task.ErrMovedOn},
		"in place of one tried again":   {logtest.After(logtest.Running, stepped(0, open("a"))), task.Remember{Epoch: 2, Steps: []task.Step{done("a")}}, nil},
		"of a fenced attempt":           {one, task.Remember{Epoch: 1, First: 1, Steps: []task.Step{done("b")}}, task.ErrFenced},
		"of an attempt that has parked": {logtest.After(one, parked(task.Park{Step: "s", Kind: task.StepSleep, Until: logtest.Noon})), task.Remember{Epoch: 2, First: 1, Steps: []task.Step{done("b")}}, task.ErrFenced},
		"of one that is to stop":        {logtest.Cancelling, task.Remember{Epoch: 2, Steps: []task.Step{done("a")}}, nil},
		"too large":                     {logtest.Running, task.Remember{Epoch: 2, Steps: []task.Step{large}}, task.ErrSteps},
		"too large together":            {one, task.Remember{Epoch: 2, First: 1, Steps: full}, task.ErrSteps},
		"stored apart":                  {one, task.Remember{Epoch: 2, First: 1, Steps: []task.Step{apart, apart}}, nil},
		"too large even there":          {one, task.Remember{Epoch: 2, First: 1, Steps: []task.Step{tooLarge}}, task.ErrSteps},
		"too many":                      {logtest.Running, task.Remember{Epoch: 2, Steps: make([]task.Step, task.MaxSteps+1)}, task.ErrSteps},
	} {
		e, err := task.Decide(logtest.Given(c.given...), c.command, logtest.Noon)
		if !errors.Is(err, c.err) || c.err == nil && !reflect.DeepEqual(e, task.AttemptStepped{Attempt: 1, Epoch: 2, First: c.command.First, Steps: c.command.Steps}) {
			t.Errorf("%s: %+v, %v; want %v", name, e, err, c.err)
		}
	}
}

// What is large is stored apart, and so is what is small when the log has much already.
func TestApart(t *testing.T) {
	of := func(sizes ...int) *task.Task {
		d := &task.Durable{}
		for _, n := range sizes {
			d.Steps = append(d.Steps, task.Step{Kind: task.StepDo, Result: make(json.RawMessage, n)})
		}
		return &task.Task{Durable: d}
	}
	const large = task.MaxStepResult
	for name, c := range map[string]struct {
		is    *task.Task
		size  int
		apart bool
	}{
		"nothing":                {&task.Task{}, 0, false},
		"the largest in the log": {&task.Task{}, large, false},
		"the smallest apart":     {&task.Task{}, large + 1, true},
		"the second":             {of(large), large, false},
		"one more":               {of(large, large), 1, true},
		"many small ones":        {of(large, large-9, 4, 4), 2, true},
	} {
		if got := c.is.Apart(c.size); got != c.apart {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// A function that waits frees its attempt, and each wait ends in the step behind it.
func TestParked(t *testing.T) {
	until, child := logtest.Noon.Add(time.Hour), []task.Need{{Task: "01JNA0CH11D000000000000000", Name: "0", When: job.WhenEnd}}
	sleep := task.Park{Step: "night", Kind: task.StepSleep, Until: until}
	await := task.Park{Step: "yes", Kind: task.StepAwait, Until: until}
	call := task.Park{Step: "thumb", Kind: task.StepCall, Of: child}
	again := task.AttemptStarted{Attempt: 2, Node: "n2", Session: "s2", Offer: 4}
	for name, c := range map[string]struct {
		park   task.Park
		state  task.State
		reason string
		due    time.Time
		holds  []string
		ends   task.Event
		last   task.Step
	}{
		"a sleep":               {sleep, task.Scheduled, value.Step, until, nil, again, task.Step{Name: "night", Kind: task.StepSleep}},
		"a signal":              {await, task.Held, task.HoldSignal, time.Time{}, []string{task.HoldSignal}, task.Unheld{Hold: task.HoldSignal, Inputs: json.RawMessage(`{"yes":{"data":1}}`)}, task.Step{Name: "yes", Kind: task.StepAwait, Result: json.RawMessage(`{"data":1}`)}},
		"a signal that is late": {await, task.Held, task.HoldSignal, time.Time{}, []string{task.HoldSignal}, task.Unheld{Hold: task.HoldSignal, Reason: "late"}, task.Step{Name: "yes", Kind: task.StepAwait, Error: "late"}},
		"children":              {call, task.Held, task.HoldNeeds, time.Time{}, []string{task.HoldNeeds}, task.Unheld{Hold: task.HoldNeeds, Inputs: json.RawMessage(`{"0":{}}`)}, task.Step{Name: "thumb", Kind: task.StepCall, Result: json.RawMessage(`{"0":{}}`)}},
	} {
		given := logtest.After(logtest.Running, stepped(0, done("a")), parked(c.park))
		is := logtest.Given(given...)
		if is.State != c.state || is.Reason != c.reason || !is.Due.Equal(c.due) || !reflect.DeepEqual(is.Holds, c.holds) || is.Waits() == nil || is.Failures != 0 {
			t.Errorf("%s: it is %s because of %q, due %v, held by %v, %d failures", name, is.State, is.Reason, is.Due, is.Holds, is.Failures)
		}
		is = logtest.Given(logtest.After(given, c.ends)...)
		last := is.Durable.Steps[len(is.Durable.Steps)-1]
		if last.At, last.Took = (time.Time{}), 0; len(is.Durable.Steps) != 2 || !reflect.DeepEqual(last, c.last) || is.Waits() != nil {
			t.Errorf("%s: when it is over, the steps are %+v", name, is.Durable.Steps)
		}
		if is.Inputs != nil || is.Needs != nil {
			t.Errorf("%s: the task itself is told %s and needs %v", name, is.Inputs, is.Needs)
		}
	}
}

// A step that failed ends with its attempt, and the next attempt tries it again; lost nodes are forgotten when
// a task has got further.
func TestStepsAfterAFailure(t *testing.T) {
	failed := task.Step{Name: "b", Kind: task.StepDo, Error: "no", Tries: 3}
	drawn := []task.Step{{Kind: task.StepNow, Result: json.RawMessage(`"2026-03-01T12:00:00Z"`)}}
	for name, c := range map[string]struct {
		more   []task.Event
		steps  int
		losses int
	}{
		"its attempt failed":       {[]task.Event{stepped(1, failed), logtest.Failed}, 1, 0},
		"its attempt goes on":      {[]task.Event{stepped(1, failed)}, 2, 0},
		"another one succeeded":    {[]task.Event{stepped(1, failed), stepped(2, done("c")), logtest.Failed}, 3, 0},
		"reopened in a wait":       {[]task.Event{parked(task.Park{Step: "yes", Kind: task.StepAwait}), task.CancelConfirmed{}, task.Reopened{}}, 1, 0},
		"it drew before it failed": {[]task.Event{task.AttemptFailed{Attempt: 1, Epoch: 2, Drawn: drawn}}, 2, 0},
		"it drew behind its step":  {[]task.Event{stepped(1, failed), task.AttemptFailed{Attempt: 1, Epoch: 2, Drawn: drawn}}, 1, 0},
		"it drew before its end":   {[]task.Event{task.AttemptFinished{Attempt: 1, Epoch: 2, Drawn: drawn}}, 2, 0},
		"a fenced one drew":        {[]task.Event{task.AttemptReleased{Attempt: 1, Epoch: 1, Drawn: drawn}}, 1, 0},
		"lost behind its step":     {[]task.Event{task.AttemptLost{Attempt: 1, Epoch: 2}}, 1, 1},
		"recorded by a fenced one": {[]task.Event{task.AttemptLost{Attempt: 1, Epoch: 2}, stepped(1, done("b"))}, 1, 1},
	} {
		is := logtest.Given(logtest.After(logtest.After(logtest.Running, stepped(0, done("a"))), c.more...)...)
		if len(is.Durable.Steps) != c.steps || is.Losses != c.losses || is.Waits() != nil {
			t.Errorf("%s: %d losses, steps %+v", name, is.Losses, is.Durable.Steps)
		}
	}
}

// People see each step with when it began, how long it took, and what it waits for.
func TestTaken(t *testing.T) {
	until, child := logtest.Noon.Add(time.Hour), task.ID("01JNA0CH11D000000000000000")
	call := parked(task.Park{Step: "thumb", Kind: task.StepCall, Of: []task.Need{{Task: child, Name: "0", When: job.WhenEnd}}})
	ended := task.Unheld{Hold: task.HoldNeeds, Inputs: json.RawMessage(`{"0":{"task":"` + string(child) + `","state":"finished"}}`)}
	for name, c := range map[string]struct {
		more     []task.Event
		is       string
		state    task.State
		until    time.Time
		children []task.ID
		waited   bool // it has a beginning
	}{
		"done":            {nil, task.StepDone, task.Finished, time.Time{}, nil, true},
		"a sleep":         {[]task.Event{parked(task.Park{Step: "night", Kind: task.StepSleep, Until: until})}, task.StepWaits, task.Scheduled, until, nil, true},
		"a signal":        {[]task.Event{parked(task.Park{Step: "yes", Kind: task.StepAwait})}, task.StepWaits, task.Held, time.Time{}, nil, true},
		"children":        {[]task.Event{call}, task.StepWaits, task.Held, time.Time{}, []task.ID{child}, true},
		"children, ended": {[]task.Event{call, ended}, task.StepDone, task.Finished, time.Time{}, []task.ID{child}, true},
		"failed":          {[]task.Event{stepped(1, task.Step{Name: "b", Kind: task.StepDo, Error: "no", At: until})}, task.StepFailed, task.Error, time.Time{}, nil, true},
		"tried again": {[]task.Event{task.AttemptParked{Attempt: 1, Epoch: 2, Park: task.Park{Step: "b", Kind: task.StepDo, Until: until}, First: 1, Steps: []task.Step{open("b")}}},
			task.StepAgain, task.Retrying, until, nil, false},
	} {
		first := done("a")
		first.At = logtest.Noon
		all := logtest.Given(logtest.After(logtest.After(logtest.Running, stepped(0, first)), c.more...)...).Durable.Taken()
		is := all[len(all)-1]
		if want := min(len(c.more), 1) + 1; is.Place != want || is.Is != c.is || is.State() != c.state || !is.Until.Equal(c.until) || !reflect.DeepEqual(is.Children, c.children) || c.waited && is.From.IsZero() {
			t.Errorf("%s: it is %+v", name, is)
		}
		if lasts := is.Lasted(until.Add(time.Hour)); (lasts > 0) != (is.Is == task.StepWaits || c.children != nil) {
			t.Errorf("%s: it took %v", name, lasts)
		}
	}
	d := &task.Durable{Parked: &task.Parked{Park: task.Park{Step: "thumb", Kind: task.StepCall, Of: []task.Need{{Task: child}}}}}
	if of, none := d.CallOf(child), d.CallOf("01JNA0CH11D000000000000001"); of != "thumb" || none != "" {
		t.Errorf("the child is of step %q, another one of %q", of, none)
	}
}
