package job

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Each runs something once for each value of a list: a task with it is a parent of as many
// children, named "0", "1" and so on, and its result is the list of their results. Exactly one of
// its fields is set.
type Each struct {
	// Values is the list itself, of JSON values.
	Values []json.RawMessage `json:"values,omitempty"`
	// Param names a parameter of the task that is a list.
	Param string `json:"param,omitempty"`
	// Result names a step, among those that the step needs, whose result is a list.
	Result string `json:"result,omitempty"`
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

// Items are the values of the list, by the parameters that the task was given and what it was told of those that it needed. The error says where it is not, or why it is none.
func (e *Each) Items(given, told json.RawMessage) ([]json.RawMessage, error) {
	values, from := e.Values, ""
	var list json.RawMessage
	switch {
	case e.Param != "":
		var params map[string]json.RawMessage
		if len(given) > 0 {
			if err := json.Unmarshal(given, &params); err != nil {
				return nil, fmt.Errorf("each.param: the parameters are no object: %w", err)
			}
		}
		list, from = params[e.Param], fmt.Sprintf("each.param: parameter %q", e.Param)
	case e.Result != "":
		var inputs map[string]struct {
			Result json.RawMessage `json:"result"`
		}
		if len(told) > 0 {
			if err := json.Unmarshal(told, &inputs); err != nil {
				return nil, fmt.Errorf("each.result: %w", err)
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
