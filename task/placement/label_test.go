package placement

import (
	"maps"
	"strings"
	"testing"
)

// One rule reads labels of nodes, of tasks and of filters: a comma separates them.
func TestParseLabels(t *testing.T) {
	for text, want := range map[string]map[string]string{
		"zone=us": {"zone": "us"}, "zone=us,gpu=": {"zone": "us", "gpu": ""}, "zone=us, gpu=a100": {"zone": "us", "gpu": "a100"}, "a=b=c": {"a": "b=c"},
	} {
		if got, err := ParseLabels([]string{text}); err != nil || !maps.Equal(got, want) {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
		for name, value := range want {
			if err := ValidLabel(name, value); err != nil {
				t.Error(err)
			}
		}
	}
	for text, want := range map[string]string{"zone=us,gpu": `"gpu": want name=value; a comma separates labels`, "gpu": `"gpu": want name=value`, "=x": "want name=value", "a=b,": "want name=value", "a=1,a=2": "a is there twice", "a=1, b=2,a=1": "a is there twice"} {
		if got, err := ParseLabels([]string{text}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v, want %q", text, got, err, want)
		}
	}
	for _, c := range [][2]string{{"zone", "us,gpu"}, {"", "x"}, {"a,b", "x"}, {"a=b", "x"}, {" a", "x"}, {"a", "x "}, {"a", "x\n"}} {
		if ValidLabel(c[0], c[1]) == nil {
			t.Errorf("%q is a label", c)
		}
	}
	// The names of handlers have dots and colons, and selectors name them.
	for _, text := range []string{"handler/email:deliver", "!handler/sort.strings,zone in (eu,us)", "zone=a:b"} {
		s, err := ParseSelector(text)
		if err != nil || s.String() != text {
			t.Errorf("%s reads as %s, %v", text, s, err)
		}
	}
	if _, err := ParseSelector("zone:eu"); err == nil {
		t.Error("zone:eu chooses nodes")
	}
}
