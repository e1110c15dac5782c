package param

import (
	"encoding/json"
	"fmt"
	"maps"

	"millrace/task/value"
)

// Over returns the defaults, overridden by the parameters that a task was given.
func Over(defaults map[string]json.RawMessage, given json.RawMessage) json.RawMessage {
	if len(defaults) == 0 {
		return given
	}
	var set map[string]json.RawMessage
	if len(given) > 0 && json.Unmarshal(given, &set) != nil {
		return given
	}
	merged, err := Merge(defaults, set)
	if err != nil {
		return given
	}
	return merged
}

// Merge returns the parameters of both as one object, nil if there are none; those of set win. The
// error says that a value is no JSON.
func Merge(defaults, set map[string]json.RawMessage) (json.RawMessage, error) {
	if len(defaults)+len(set) == 0 {
		return nil, nil
	}
	all := make(map[string]json.RawMessage, len(defaults)+len(set))
	maps.Copy(all, defaults)
	maps.Copy(all, set)
	merged, err := value.JSON(all)
	if err != nil {
		return nil, fmt.Errorf("params: %w", err)
	}
	return merged, nil
}
