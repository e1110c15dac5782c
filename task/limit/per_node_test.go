package limit

import (
	"encoding/json"
	"testing"
)

func TestPerNodeAsJSON(t *testing.T) {
	for text, want := range map[string]string{
		`{"max":2}`:                  `{"max":2}`,
		`[{"max":2}]`:                `{"max":2}`,
		`[{"max":2},{"max":1}]`:      `[{"max":2},{"max":1}]`,
		`{}`:                         `[]`,
		`{"max":1,"key":"{queue}/"}`: `{"max":1,"key":"{queue}/"}`,
	} {
		var p PerNodes
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			t.Fatal(err)
		}
		if got, err := json.Marshal(p); err != nil || string(got) != want {
			t.Errorf("%s becomes %s, %v", text, got, err)
		}
	}
}
