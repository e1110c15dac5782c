package findings

import "encoding/json"

// Own returns a copy that shares no memory with a record.
func Own[T any](v *T) *T {
	c := new(T)
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, c)
	}
	if err != nil {
		return v // no record has it
	}
	return c
}
