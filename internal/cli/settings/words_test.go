package settings

import (
	"slices"
	"testing"
)

func TestWords(t *testing.T) {
	for line, want := range map[string][]string{
		"":                           nil,
		"  task  ls ":                {"task", "ls"},
		`task ls --text "a 'b' c"`:   {"task", "ls", "--text", "a 'b' c"},
		`p 'x "y"' z\ z ""`:          {"p", `x "y"`, "z z", ""},
		`--since="2026-03-01 12:00"`: {"--since=2026-03-01 12:00"},
	} {
		if have, err := Words(line); err != nil || !slices.Equal(have, want) {
			t.Errorf("%q: %q, %v; want %q", line, have, err, want)
		}
	}
	for _, line := range []string{`"a`, `a\`, `'`} {
		if _, err := Words(line); err == nil {
			t.Errorf("%q was split", line)
		}
	}
}
