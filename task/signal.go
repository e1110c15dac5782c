package task

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"millrace/task/value"
)

// Signal is a word from outside that a task waits for: an approval, a file that has come.
type Signal struct {
	// Name is what it is called, for people and among the task's inputs. Default [DefaultSignal].
	Name string `json:"name,omitempty"`
	// Timeout is how long the task waits for it once nothing else but limits
	// holds it. Default: no bound.
	Timeout value.Duration `json:"timeout,omitempty"`
	// OnTimeout is what follows then. Default [SignalExpire].
	OnTimeout string `json:"on_timeout,omitempty"`
}

// DefaultSignal is the name of a signal that has none.
const DefaultSignal = "signal"

// What follows if a signal does not come in time.
const (
	// SignalExpire ends the task abnormal/expired.
	SignalExpire = "expire"
	// SignalGoOn lets it go on without.
	SignalGoOn = "go_on"
)

// SignalPolicies are the values of on_timeout.
var SignalPolicies = []string{SignalExpire, SignalGoOn}

// ErrNotHeld: the task does not wait for what was to open.
var ErrNotHeld = errors.New("nothing of that kind holds the task")

func (s *Signal) validate() error {
	switch {
	case s == nil:
		return nil
	case s.OnTimeout != "" && !slices.Contains(SignalPolicies, s.OnTimeout):
		return fmt.Errorf("signal.on_timeout is %q, want one of %v", s.OnTimeout, SignalPolicies)
	case s.OnTimeout != "" && s.Timeout == 0:
		return errors.New("signal.on_timeout says what follows signal.timeout, and that is not set")
	}
	if s.Name != "" {
		if err := value.ValidName("signal", s.Name); err != nil {
			return fmt.Errorf("signal.name: %w", err)
		}
	}
	return value.NotBelowZero("signal.timeout", s.Timeout)
}

// Inputs is what a task is told of the signal: one member by the signal's name, with
// what came with it (JSON, or nil) and who gave it.
func (s *Signal) Inputs(by string, data json.RawMessage) (json.RawMessage, error) {
	if len(data) > MaxInputs {
		return nil, fmt.Errorf("what comes with a signal has %d bytes, want at most %d", len(data), MaxInputs)
	}
	if len(data) > 0 && !json.Valid(data) {
		return nil, errors.New("what comes with a signal is not valid JSON")
	}
	name := DefaultSignal
	if s != nil {
		name = cmp.Or(s.Name, name)
	}
	inputs, err := json.Marshal(map[string]any{name: struct {
		By   string          `json:"by,omitempty"`
		Data json.RawMessage `json:"data,omitempty"`
	}{by, data}})
	if err != nil {
		return nil, fmt.Errorf("signal: %w", err)
	}
	return inputs, nil
}

// joinInputs adds the members of one object to those of another, over which they win.
func joinInputs(to, more json.RawMessage) (json.RawMessage, error) {
	if len(to) == 0 || len(more) == 0 {
		return slices.Concat(to, more), nil
	}
	var all, add map[string]json.RawMessage
	if err := json.Unmarshal(more, &add); err != nil {
		return nil, fmt.Errorf("inputs: %w", err)
	}
	if json.Unmarshal(to, &all) != nil || all == nil {
		return more, nil // what was there is no object, and must not hold the task for ever
	}
	maps.Copy(all, add)
	return json.Marshal(all)
}

// SignalBy is when the signal that holds the task is too late; zero if nothing
// says so, or something else holds it still.
func (t *Task) SignalBy() time.Time {
	if t.State != Held || !slices.Contains(t.Holds, HoldSignal) || slices.Contains(t.Holds, HoldNeeds) {
		return time.Time{}
	}
	if t.Spec == nil || t.Spec.Signal == nil || t.Spec.Signal.Timeout == 0 {
		return time.Time{}
	}
	return value.Later(t.Since, t.Due).Add(t.Spec.Signal.Timeout.Std())
}

// signalDuty says who gives the signal that a task waits for.
func signalDuty(t Task, around Surroundings, s Settings) Duty {
	name, policy := DefaultSignal, SignalExpire
	if t.Spec != nil && t.Spec.Signal != nil {
		name, policy = cmp.Or(t.Spec.Signal.Name, name), cmp.Or(t.Spec.Signal.OnTimeout, policy)
	}
	d := Duty{Who: "operator", What: fmt.Sprintf("give signal %q (`millrace task signal %s`), or cancel it", name, t.ID)}
	by := t.SignalBy()
	if by.IsZero() {
		return awaited(t, around, s, d)
	}
	late := fmt.Sprintf("signal %q did not come by %s", name, value.Clock(by))
	if d.By = by; policy == SignalGoOn {
		d.Else, d.Command = "it goes on without", Unhold{Hold: HoldSignal, Reason: late}
		return d
	}
	d.Else, d.Command = "it ends as abnormal/expired", Expire{Detail: late}
	return d
}
