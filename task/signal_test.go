package task

import (
	"encoding/json"
	"testing"
	"time"

	"millrace/task/job"
	"millrace/task/value"
)

func TestSignal(t *testing.T) {
	s := held(HoldNeeds, HoldSignal)
	spec := *s.Spec
	spec.Signal = &job.Signal{Name: "approval", Timeout: value.Duration(time.Hour)}
	s.Spec = &spec
	now := given(s)
	if by := now.SignalBy(); !by.IsZero() {
		t.Errorf("the signal is late at %v, and what the task needs has not ended", by)
	}
	now = given(s, Unheld{Hold: HoldNeeds, Inputs: json.RawMessage(`{"a":1}`)})
	if by := now.SignalBy(); !by.Equal(at(2).Add(time.Hour)) {
		t.Errorf("the signal is late at %v", by)
	}
	d := Owes(now, Surroundings{}, Settings{})
	if _, ok := d.Command.(Expire); !ok || d.Who != "operator" || d.Look {
		t.Errorf("it owes %+v", d)
	}
	spec.Signal.OnTimeout = job.SignalGoOn
	if d := Owes(now, Surroundings{}, Settings{}); d.Command != (Command)(nil) {
		if c, ok := d.Command.(Unhold); !ok || c.Hold != HoldSignal {
			t.Errorf("it owes %+v", d)
		}
	}
	inputs, err := spec.Signal.Inputs("ann", json.RawMessage(`{"ok":true}`))
	if err != nil {
		t.Fatal(err)
	}
	e, err := Decide(now, Unhold{Hold: HoldSignal, Inputs: inputs}, noon)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(e.(Unheld).Inputs), `{"a":1,"approval":{"by":"ann","data":{"ok":true}}}`; got != want {
		t.Errorf("it is told %s, want %s", got, want)
	}
}
