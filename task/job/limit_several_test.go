package job

import (
	"encoding/json"
	"testing"
)

// A single limit keeps its old form without a list, and both forms can be read.
func TestLimitsInJSON(t *testing.T) {
	for text, want := range map[string]string{
		`{"handler":"h","concurrency":{"max":5},"rate":{"limit":2,"burst":3}}`:                           "",
		`{"handler":"h","concurrency":[{"max":5},{"max":1,"key":"a"}],"rate":[{"limit":2},{"limit":3}]}`: "",
		`{"handler":"h","concurrency":[{"max":5}],"rate":[{"limit":2}]}`:                                 `{"handler":"h","concurrency":{"max":5},"rate":{"limit":2}}`,
		`{"handler":"h","concurrency":{},"rate":[]}`:                                                     `{"handler":"h","concurrency":[],"rate":[]}`,
		`{"handler":"h"}`: "",
	} {
		var s Spec
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if want == "" {
			want = text
		}
		if got, err := json.Marshal(s); string(got) != want || err != nil {
			t.Errorf("%s is written as %s, %v", text, got, err)
		}
	}
	var s Spec
	if err := json.Unmarshal([]byte(`{"concurrency":5}`), &s); err == nil {
		t.Error("a number is read as a limit")
	}
}
