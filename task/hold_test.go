package task

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"millrace/task/reason"
)

func held(holds ...string) Submitted {
	w := work
	w.Holds = holds
	return Submitted{Work: w}
}

// A held task is offered when the last of its holds has opened.
func TestHolds(t *testing.T) {
	future := held(HoldNeeds)
	future.Due = noon.Add(time.Hour)
	offer := Queued{Work: work, Attempt: 1, Reason: "admitted"}
	for name, c := range map[string]struct {
		story  []Event
		state  State
		reason string
		offers bool // the task must be offered next
	}{
		"held":                           {[]Event{held(HoldNeeds, HoldLimit)}, Held, HoldNeeds, false},
		"one of two opened":              {[]Event{held(HoldNeeds, HoldLimit), Unheld{Hold: HoldNeeds}}, Held, HoldLimit, false},
		"the other of two opened":        {[]Event{held(HoldNeeds, HoldSignal), Unheld{Hold: HoldSignal}}, Held, HoldNeeds, false},
		"the last opened":                {[]Event{held(HoldNeeds), Unheld{Hold: HoldNeeds}}, Pending, "", true},
		"opened twice":                   {[]Event{held(HoldNeeds), Unheld{Hold: HoldNeeds}, Unheld{Hold: HoldNeeds}}, Pending, "", true},
		"the last opened before its due": {[]Event{future, Unheld{Hold: HoldNeeds}}, Scheduled, "", true},
		"another opened":                 {[]Event{held(HoldNeeds), Unheld{Hold: HoldSignal}}, Held, HoldNeeds, false},
		"opened by an offer":             {[]Event{held(HoldLimit), offer}, Pending, "", false},
		"an offer for an old turn":       {[]Event{held(HoldNeeds, HoldLimit), Unheld{Hold: HoldNeeds}, offer}, Held, HoldLimit, false},
		"cancelled":                      {[]Event{held(HoldNeeds), CancelConfirmed{}, Unheld{Hold: HoldNeeds}}, Cancelled, reason.User, false},
		"not held":                       {[]Event{birth, Unheld{Hold: HoldNeeds}}, Pending, "", false},
	} {
		got := given(c.story...)
		if got.State != c.state || got.Reason != c.reason {
			t.Errorf("%s: it is %s (%s), want %s (%s)", name, got.State, got.Reason, c.state, c.reason)
		}
		if _, ok := NextOffer(&got); ok != c.offers {
			t.Errorf("%s: an offer must follow: %v, want %v", name, ok, c.offers)
		}
	}
	births := held(HoldNeeds, HoldLimit)
	given(births, Unheld{Hold: HoldNeeds})
	if !slices.Equal(births.Holds, []string{HoldNeeds, HoldLimit}) {
		t.Errorf("the birth was changed: %v", births.Holds)
	}
}

func TestUnhold(t *testing.T) {
	for name, c := range map[string]struct {
		story []Event
		hold  string
		want  Event
		err   error
	}{
		"held":       {[]Event{held(HoldNeeds, HoldLimit)}, HoldNeeds, Unheld{Hold: HoldNeeds, Reason: "why"}, nil},
		"opened":     {[]Event{held(HoldNeeds), Unheld{Hold: HoldNeeds}}, HoldNeeds, nil, ErrNotHeld},
		"never held": {[]Event{birth}, HoldSignal, nil, ErrNotHeld},
		"ended":      {[]Event{held(HoldNeeds), CancelConfirmed{}}, HoldNeeds, nil, ErrEnded},
		"nobody":     {nil, HoldNeeds, nil, ErrUnknown},
	} {
		got, err := Decide(given(c.story...), Unhold{Hold: c.hold, Reason: "why"}, noon)
		if !reflect.DeepEqual(got, c.want) || !errors.Is(err, c.err) {
			t.Errorf("%s: %v, %v, want %v, %v", name, got, err, c.want, c.err)
		}
	}
	if _, err := Decide(given(held(HoldLimit)), Unhold{Hold: HoldLimit}, noon); err == nil {
		t.Error("a limit was opened by a command")
	}
}

// The pending timeout begins when only the queue keeps the task waiting.
func TestHeldPendingTimeout(t *testing.T) {
	s := held(HoldNeeds, HoldLimit)
	s.Spec = bounded
	got := given(s)
	if !got.StartBy.IsZero() {
		t.Errorf("while it needs others it is to start by %v", got.StartBy)
	}
	got = given(s, Unheld{Hold: HoldNeeds})
	if want := at(2).Add(5 * time.Minute); !got.StartBy.Equal(want) {
		t.Errorf("it is to start by %v, want %v", got.StartBy, want)
	}
	if d := Owes(got, Surroundings{}, Settings{}); d.Command == nil || !d.By.Equal(got.StartBy) {
		t.Errorf("nobody ends it then: %+v", d)
	}
}

// A reopened task keeps its inputs until it gets newer ones. Inputs that are not an object do not
// prevent that.
func TestToldAgain(t *testing.T) {
	needy := held(HoldNeeds, HoldSignal)
	needy.Needs = &Needs{Of: []Need{{Task: "01JNA0NEED0000000000000000", Name: "make"}}}
	told := given(needy,
		Unheld{Hold: HoldSignal, Inputs: []byte(`{"boss":{"data":1}}`)}, Unheld{Hold: HoldNeeds, Inputs: []byte(`{"boss":{"data":1},"make":{"result":7}}`)},
		CancelConfirmed{}, Reopened{Reason: "again"})
	if told.State != Held || !slices.Equal(told.Holds, []string{HoldNeeds}) {
		t.Fatalf("it is %s, held by %v", told.State, told.Holds)
	}
	e, err := Decide(told, Unhold{Hold: HoldNeeds, Inputs: []byte(`{"make":{"result":8}}`)}, noon)
	if err != nil || string(e.(Unheld).Inputs) != `{"boss":{"data":1},"make":{"result":8}}` {
		t.Errorf("it is told %s, %v", e.(Unheld).Inputs, err)
	}
	for _, was := range []string{"7", "null", "[]", "{"} {
		told.Inputs = []byte(was)
		if e, err := Decide(told, Unhold{Hold: HoldNeeds, Inputs: []byte(`{"make":1}`)}, noon); err != nil || string(e.(Unheld).Inputs) != `{"make":1}` {
			t.Errorf("after %s it is told %+v, %v", was, e, err)
		}
	}
}
