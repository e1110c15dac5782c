package job

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"millrace/task/value"
)

// Signal is an event from outside for which a task waits: an approval, the arrival of a file.
type Signal struct {
	// Name is the signal's name, for people and among the task's inputs. Default [DefaultSignal].
	Name string `json:"name,omitempty" redact:"keep" names:"signal" short:"text"`
	// Timeout is how long the task waits for it once only the signal and limits hold it. Default:
	// no bound.
	Timeout value.Duration `json:"timeout,omitempty" least:"0"`
	// OnTimeout is what happens then. Default [SignalExpire].
	OnTimeout string `json:"on_timeout,omitempty" redact:"word" words:"expire,go_on"`
}

// DefaultSignal is the name of a signal without its own.
const DefaultSignal = "signal"

// Values of [Signal.OnTimeout].
const (
	// SignalExpire ends the task abnormal/expired.
	SignalExpire = "expire"
	// SignalGoOn lets the task run without it.
	SignalGoOn = "go_on"
)

// SignalPolicies are the values of on_timeout.
var SignalPolicies = value.WordsOf[Signal]("on_timeout")

func (s *Signal) validate() error {
	switch {
	case s == nil:
		return nil
	case s.OnTimeout != "" && !slices.Contains(SignalPolicies, s.OnTimeout):
		return fmt.Errorf("signal.on_timeout is %q, want one of %s", s.OnTimeout, value.List(SignalPolicies))
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

// Inputs is what the task is told about the signal: one member by the signal's name, with the data
// that came with it (JSON, or nil) and its sender.
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
	inputs, err := value.JSON(map[string]any{name: struct {
		By   string          `json:"by,omitempty"`
		Data json.RawMessage `json:"data,omitempty"`
	}{by, data}})
	if err != nil {
		return nil, fmt.Errorf("signal: %w", err)
	}
	return inputs, nil
}
