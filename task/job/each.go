package job

import (
	"encoding/json"
	"errors"
	"fmt"

	"millrace/task/value"
)

// Each runs the spec once for each value of a list. Its task is a parent with one child per value,
// named "0", "1" and so on; its result is the list of their results. Exactly one field is set.
type Each struct {
	// Values is the list itself, of JSON values.
	Values []json.RawMessage `json:"values,omitempty" redact:"data" short:"list"`
	// Param names a parameter of the task that is a list.
	Param string `json:"param,omitempty" redact:"keep" read:"line"`
	// Result names a step whose result is a list. The step with this Each must need that step.
	Result string `json:"result,omitempty" redact:"word" names:"step"`
}

func (e *Each) validate() error {
	if e == nil {
		return nil
	}
	set := 0
	for _, is := range []bool{len(e.Values) > 0, e.Param != "", e.Result != ""} {
		if is {
			set++
		}
	}
	switch {
	case set == 0:
		return errors.New("each: want a list of values, or {param: NAME} or {result: STEP}")
	case set > 1:
		return errors.New("each: choose one of a list of values, param and result")
	case len(e.Values) > MaxChildren:
		return fmt.Errorf("each: %d values, want at most %d", len(e.Values), MaxChildren)
	}
	return nil
}

// Items returns the values of the list, from the task's parameters (given) or the results of its
// needs (told). The error says that the list is missing, or why the value is not a list.
func (e *Each) Items(given, told json.RawMessage) ([]json.RawMessage, error) {
	values, from := e.Values, ""
	var list json.RawMessage
	switch {
	case e.Param != "":
		var params map[string]json.RawMessage
		if len(given) > 0 {
			if err := json.Unmarshal(given, &params); err != nil {
				return nil, fmt.Errorf("each.param: the parameters are no object: %w", value.Plainly(err))
			}
		}
		list, from = params[e.Param], fmt.Sprintf("each.param: parameter %q", e.Param)
	case e.Result != "":
		var inputs map[string]struct {
			Result json.RawMessage `json:"result"`
		}
		if len(told) > 0 {
			if err := json.Unmarshal(told, &inputs); err != nil {
				return nil, fmt.Errorf("each.result: %w", value.Plainly(err))
			}
		}
		list, from = inputs[e.Result].Result, fmt.Sprintf("each.result: the result of step %q", e.Result)
	}
	if from != "" {
		if len(list) == 0 {
			return nil, fmt.Errorf("%s is missing, want a list", from)
		}
		if err := json.Unmarshal(list, &values); err != nil || string(list) == "null" {
			return nil, fmt.Errorf("%s is not a list", from)
		}
	}
	if len(values) > MaxChildren {
		return nil, fmt.Errorf("each: %d values, want at most %d", len(values), MaxChildren)
	}
	return values, nil
}
