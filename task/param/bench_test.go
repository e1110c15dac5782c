package param

import (
	"encoding/json"
	"testing"
)

// The cost of a declared parameter at a birth. Undeclared ones cost nothing.
func BenchmarkRead(b *testing.B) {
	p := Params{Declared: []Param{{Name: "a", Type: Integer}, {Name: "b", Enum: []json.RawMessage{json.RawMessage(`"x"`)}}}}
	values := map[string]json.RawMessage{"a": json.RawMessage("1"), "b": json.RawMessage(`"x"`)}
	for b.Loop() {
		if _, wrong := p.Read(values, nil); len(wrong) > 0 {
			b.Fatal(wrong)
		}
	}
}
