package task

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"millrace/task/job"
	"millrace/task/value"
)

// ErrNotHeld: the task does not have the hold that was to be opened.
var ErrNotHeld = errors.New("nothing of that kind holds the task")

// joinInputs merges two objects; members of more win.
func joinInputs(to, more json.RawMessage) (json.RawMessage, error) {
	if len(to) == 0 || len(more) == 0 {
		return slices.Concat(to, more), nil
	}
	var all, add map[string]json.RawMessage
	if err := json.Unmarshal(more, &add); err != nil {
		return nil, fmt.Errorf("inputs: %w", err)
	}
	if json.Unmarshal(to, &all) != nil || all == nil {
		return more, nil // the old value is no object, and must not hold the task for ever
	}
	maps.Copy(all, add)
	return json.Marshal(all)
}

// SignalBy is the deadline of the signal that holds the task; zero if there is no deadline, or if
// another hold comes first.
func (t *Task) SignalBy() time.Time {
	if t.State != Held || !slices.Contains(t.Holds, HoldSignal) || slices.Contains(t.Holds, HoldNeeds) {
		return time.Time{}
	}
	if t.Spec == nil || t.Spec.Signal == nil || t.Spec.Signal.Timeout == 0 {
		return time.Time{}
	}
	return value.Later(t.Since, t.Due).Add(t.Spec.Signal.Timeout.Std())
}

// signalDuty says who gives the signal for which a task waits.
func signalDuty(t Task, around Surroundings, s Settings) Duty {
	name, policy := job.DefaultSignal, job.SignalExpire
	if t.Spec != nil && t.Spec.Signal != nil {
		name, policy = cmp.Or(t.Spec.Signal.Name, name), cmp.Or(t.Spec.Signal.OnTimeout, policy)
	}
	d := Duty{Who: "operator", What: fmt.Sprintf("give signal %q (`millrace task signal %s`), or cancel it", name, t.ID)}
	by := t.SignalBy()
	if by.IsZero() {
		return awaited(t, around, s, d)
	}
	late := fmt.Sprintf("signal %q did not come by %s", name, value.Clock(by))
	if d.By = by; policy == job.SignalGoOn {
		d.Else, d.Command = "it goes on without", Unhold{Hold: HoldSignal, Reason: late}
		return d
	}
	d.Else, d.Command = "it ends as abnormal/expired", Expire{Detail: late}
	return d
}
