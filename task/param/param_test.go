package param

import (
	"encoding/json"
	"slices"
	"testing"
)

// Texts offers valid values in the form in which a person types them.
func TestTexts(t *testing.T) {
	for text, want := range map[string][]string{
		`{"type": "boolean"}`:                                    {"true", "false"},
		`{"enum": ["a b", 1, null]}`:                             {"a b", "1", "null"},
		`{"secret": true, "enum": [{"file": "/run/secrets/a"}]}`: {"file:/run/secrets/a"},
		`{"type": "integer", "min": 1}`:                          nil,
	} {
		var d Param
		if err := json.Unmarshal([]byte(text), &d); err != nil {
			t.Fatal(err)
		}
		if got := d.Texts(); !slices.Equal(got, want) {
			t.Errorf("%s offers %q, want %q", text, got, want)
		}
		for _, one := range want { // and each reads back as its value
			if err := d.Check(d.read(one)); err != nil {
				t.Errorf("%s typed as %s: %v", text, one, err)
			}
		}
	}
}

// Parameters survive a round trip.
func TestForms(t *testing.T) {
	for _, text := range []string{`{"a":1}`, `[{"name":"a","type":"integer"}]`} {
		var p Params
		err := json.Unmarshal([]byte(text), &p)
		if back, again := json.Marshal(p); err != nil || again != nil || string(back) != text || p.IsZero() {
			t.Errorf("%s is written as %s, %v, %v", text, back, err, again)
		}
	}
	if !(Params{}).IsZero() || !(Params{Defaults: map[string]json.RawMessage{}}).IsZero() {
		t.Error("none are some")
	}
}
