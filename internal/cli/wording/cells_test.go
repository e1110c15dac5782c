package wording

import (
	"encoding/json"
	"testing"
)

// A text stands without its quotes, unless it would look like another value, or like none.
func TestValue(t *testing.T) {
	for is, want := range map[string]string{
		`"eu-west"`: "eu-west", `"a b"`: "a b", `"say \"no\""`: `say "no"`, `"1.10"`: `"1.10"`, `"null"`: `"null"`, `"{}"`: `"{}"`, `""`: `""`, `" a"`: `" a"`,
		`"a\n"`: `"a\n"`, `7`: "7", `["a"]`: `["a"]`, `null`: "null", ``: "",
	} {
		if got := Value(json.RawMessage(is)); got != want {
			t.Errorf("%s is %q, want %q", is, got, want)
		}
	}
}
