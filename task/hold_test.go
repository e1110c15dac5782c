package task_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"millrace/events/logtest"
	"millrace/task"
	"millrace/task/duties"
	"millrace/task/value"
)

func held(holds ...string) task.Submitted {
	w := logtest.Work
	w.Holds = holds
	return task.Submitted{Work: w}
}

// A held task is offered when the last of its holds has opened.
func TestHolds(t *testing.T) {
	future := held(task.HoldNeeds)
	future.Due = logtest.Noon.Add(time.Hour)
	offer := task.Queued{Work: logtest.Work, Attempt: 1, Reason: "admitted"}
	for name, c := range map[string]struct {
		story  []task.Event
		state  task.State
		reason string
		offers bool // the task must be offered next
	}{
		"held":                           {[]task.Event{held(task.HoldNeeds, task.HoldLimit)}, task.Held, task.HoldNeeds, false},
		"one of two opened":              {[]task.Event{held(task.HoldNeeds, task.HoldLimit), task.Unheld{Hold: task.HoldNeeds}}, task.Held, task.HoldLimit, false},
		"the other of two opened":        {[]task.Event{held(task.HoldNeeds, task.HoldSignal), task.Unheld{Hold: task.HoldSignal}}, task.Held, task.HoldNeeds, false},
		"the last opened":                {[]task.Event{held(task.HoldNeeds), task.Unheld{Hold: task.HoldNeeds}}, task.Pending, "", true},
		"opened twice":                   {[]task.Event{held(task.HoldNeeds), task.Unheld{Hold: task.HoldNeeds}, task.Unheld{Hold: task.HoldNeeds}}, task.Pending, "", true},
		"the last opened before its due": {[]task.Event{future, task.Unheld{Hold: task.HoldNeeds}}, task.Scheduled, "", true},
		"another opened":                 {[]task.Event{held(task.HoldNeeds), task.Unheld{Hold: task.HoldSignal}}, task.Held, task.HoldNeeds, false},
		"opened by an offer":             {[]task.Event{held(task.HoldLimit), offer}, task.Pending, "", false},
		"an offer for an old turn":       {[]task.Event{held(task.HoldNeeds, task.HoldLimit), task.Unheld{Hold: task.HoldNeeds}, offer}, task.Held, task.HoldLimit, false},
		"cancelled":                      {[]task.Event{held(task.HoldNeeds), task.CancelConfirmed{}, task.Unheld{Hold: task.HoldNeeds}}, task.Cancelled, value.User, false},
		"not held":                       {[]task.Event{logtest.Birth, task.Unheld{Hold: task.HoldNeeds}}, task.Pending, "", false},
	} {
		got := logtest.Given(c.story...)
		if got.State != c.state || got.Reason != c.reason {
			t.Errorf("%s: it is %s (%s), want %s (%s)", name, got.State, got.Reason, c.state, c.reason)
		}
		if _, ok := task.NextOffer(&got); ok != c.offers {
			t.Errorf("%s: an offer must follow: %v, want %v", name, ok, c.offers)
		}
	}
	births := held(task.HoldNeeds, task.HoldLimit)
	logtest.Given(births, task.Unheld{Hold: task.HoldNeeds})
	if !slices.Equal(births.Holds, []string{task.HoldNeeds, task.HoldLimit}) {
		t.Errorf("the birth was changed: %v", births.Holds)
	}
}

func TestUnhold(t *testing.T) {
	for name, c := range map[string]struct {
		story []task.Event
		hold  string
		want  task.Event
		err   error
	}{
		"held":       {[]task.Event{held(task.HoldNeeds, task.HoldLimit)}, task.HoldNeeds, task.Unheld{Hold: task.HoldNeeds, Reason: "why"}, nil},
		"opened":     {[]task.Event{held(task.HoldNeeds), task.Unheld{Hold: task.HoldNeeds}}, task.HoldNeeds, nil, task.ErrNotHeld},
		"never held": {[]task.Event{logtest.Birth}, task.HoldSignal, nil, task.ErrNotHeld},
		"ended":      {[]task.Event{held(task.HoldNeeds), task.CancelConfirmed{}}, task.HoldNeeds, nil, task.ErrEnded},
		"nobody":     {nil, task.HoldNeeds, nil, task.ErrUnknown},
	} {
		got, err := task.Decide(logtest.Given(c.story...), task.Unhold{Hold: c.hold, Reason: "why"}, logtest.Noon)
		if !reflect.DeepEqual(got, c.want) || !errors.Is(err, c.err) {
			t.Errorf("%s: %v, %v, want %v, %v", name, got, err, c.want, c.err)
		}
	}
	if _, err := task.Decide(logtest.Given(held(task.HoldLimit)), task.Unhold{Hold: task.HoldLimit}, logtest.Noon); err == nil {
		t.Error("a limit was opened by a command")
	}
}

// The pending timeout begins when only the queue keeps the task waiting.
func TestHeldPendingTimeout(t *testing.T) {
	s := held(task.HoldNeeds, task.HoldLimit)
	s.Spec = logtest.Bounded
	got := logtest.Given(s)
	if !got.StartBy.IsZero() {
		t.Errorf("while it needs others it is to start by %v", got.StartBy)
	}
	got = logtest.Given(s, task.Unheld{Hold: task.HoldNeeds})
	if want := logtest.At(2).Add(5 * time.Minute); !got.StartBy.Equal(want) {
		t.Errorf("it is to start by %v, want %v", got.StartBy, want)
	}
	if d := duties.Owes(got, duties.Surroundings{}, duties.Settings{}); d.Command == nil || !d.By.Equal(got.StartBy) {
		t.Errorf("nobody ends it then: %+v", d)
	}
}

// A reopened task keeps its inputs until it gets newer ones. Inputs that are not an object do not
// prevent that.
func TestToldAgain(t *testing.T) {
	needy := held(task.HoldNeeds, task.HoldSignal)
	needy.Needs = &task.Needs{Of: []task.Need{{Task: "01JNA0NEED0000000000000000", Name: "make"}}}
	told := logtest.Given(needy,
		task.Unheld{Hold: task.HoldSignal, Inputs: []byte(`{"boss":{"data":1}}`)}, task.Unheld{Hold: task.HoldNeeds, Inputs: []byte(`{"boss":{"data":1},"make":{"result":7}}`)},
		task.CancelConfirmed{}, task.Reopened{Reason: "again"})
	if told.State != task.Held || !slices.Equal(told.Holds, []string{task.HoldNeeds}) {
		t.Fatalf("it is %s, held by %v", told.State, told.Holds)
	}
	e, err := task.Decide(told, task.Unhold{Hold: task.HoldNeeds, Inputs: []byte(`{"make":{"result":8}}`)}, logtest.Noon)
	if err != nil || string(e.(task.Unheld).Inputs) != `{"boss":{"data":1},"make":{"result":8}}` {
		t.Errorf("it is told %s, %v", e.(task.Unheld).Inputs, err)
	}
	for _, was := range []string{"7", "null", "[]", "{"} {
		told.Inputs = []byte(was)
		if e, err := task.Decide(told, task.Unhold{Hold: task.HoldNeeds, Inputs: []byte(`{"make":1}`)}, logtest.Noon); err != nil || string(e.(task.Unheld).Inputs) != `{"make":1}` {
			t.Errorf("after %s it is told %+v, %v", was, e, err)
		}
	}
}
