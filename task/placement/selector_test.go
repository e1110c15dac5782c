package placement

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestSelectorMatch(t *testing.T) {
	labels := map[string]string{"zone": "eu", "gpu": "", "mem": "16", "disk": "1.5", "name": "many"}
	for text, why := range map[string]string{
		"":                            "",
		"zone in (eu,us), gpu":        "",
		"zone=eu,mem>=16,mem<=16":     "",
		"mem>15.5, mem<1e2":           "",
		"disk > 1":                    "",
		"!spot, spot!=yes":            "",
		"spot notin (a,b)":            "",
		"zone==eu":                    "",
		"zone in (us,asia)":           `zone in (asia,us): its zone is "eu"`,
		"zone!=eu":                    `zone!=eu: its zone is "eu"`,
		"spot":                        `spot: the node has no label "spot"`,
		"!gpu":                        `!gpu: its gpu is ""`,
		"mem>16":                      `mem>16: its mem is "16"`,
		"name>1":                      `name>1: its name is "many"`,
		"cores>1":                     `cores>1: the node has no label "cores"`,
		"zone notin (eu,us), mem > 0": `zone notin (eu,us): its zone is "eu"`,
	} {
		s, err := ParseSelector(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if ok, got := s.Match(labels); got != why || ok != (why == "") {
			t.Errorf("%s: %v, %q; want %q", text, ok, got, why)
		}
		again, err := ParseSelector(s.String())
		if err != nil || again.String() != s.String() {
			t.Errorf("%s is written %s, which reads as %s, %v", text, s, again, err)
		}
	}
}

func TestSelectorRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"zone between (a,b)":                    "want key, !key",
		"zone in eu":                            "want key, !key",
		"zone in (eu":                           "want key, !key",
		"mem>much":                              "want a number",
		"mem>NaN":                               "want a number",
		"=x":                                    "the label",
		"!":                                     "the label",
		"a=(b":                                  "without commas",
		"gr\u00f6\u00dfe":                       "want key",
		strings.Repeat("a,", MaxRequirements+1): "at most 32",
	} {
		_, err := ParseSelector(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// The same requirements give the same route in any spelling.
func TestSelectorRoutes(t *testing.T) {
	route := func(text string) Route {
		s, err := ParseSelector(text)
		if err != nil {
			t.Fatal(err)
		}
		return SelectorRoute("default", s, 5)
	}
	a := route("zone in (eu,us),gpu")
	if b := route("gpu, gpu, zone in ( us , eu,us)"); a != b || a.Validate() != nil || !a.Selected() {
		t.Errorf("%s and %s (%v)", a, b, a.Validate())
	}
	if b := route("zone in (eu),gpu"); a == b {
		t.Error("different selectors have the same route")
	}
	if b := SelectorRoute("other", nil, 5); b == SelectorRoute("default", nil, 5) {
		t.Error("different queues have the same route")
	}
	if Route("~.5").Validate() == nil || Route("~a.b.5").Validate() == nil || QueueRoute("q", 5).Selected() {
		t.Error("what is no route of a selector passes for one")
	}
}

func TestSelectorJSON(t *testing.T) {
	for _, text := range []string{
		`["zone in (us,eu)", "mem >= 16", "gpu"]`, `"gpu,mem>=16,zone in (eu,us)"`, `{"zone": ["eu", "us"], "mem": ">=16", "gpu": "!=x"}`,
	} {
		var s Selector
		if err := json.Unmarshal([]byte(text), &s); err != nil || len(s) != 3 {
			t.Errorf("%s: %v, %v", text, s, err)
			continue
		}
		b, err := json.Marshal(s)
		var again Selector
		if err != nil || json.Unmarshal(b, &again) != nil || again.String() != s.String() {
			t.Errorf("%s is written %s, which reads as %s, %v", text, b, again, err)
		}
	}
	for _, text := range []string{`{"a": {}}`, `7`, `["a b c"]`, `{"a": [[]]}`, `{"mem": ">x"}`} {
		var s Selector
		if err := json.Unmarshal([]byte(text), &s); err == nil {
			t.Errorf("%s: read as %s", text, s)
		}
	}
}

func FuzzSelector(f *testing.F) {
	for _, text := range []string{"zone in (eu,us),gpu,!spot,mem>=16", "a=b,c!=d", "((", "a in ()", "!,"} {
		f.Add(text, "zone", "eu")
	}
	f.Fuzz(func(t *testing.T, text, key, value string) {
		s, err := ParseSelector(text)
		if err != nil {
			return
		}
		again, err := ParseSelector(s.String())
		if err != nil || again.String() != s.String() {
			t.Fatalf("%q is written %q, which reads as %q, %v", text, s, again, err)
		}
		labels := map[string]string{key: value}
		if a, _ := s.Match(labels); !a {
			if b, why := again.Match(labels); b || why == "" {
				t.Fatalf("%q and %q differ", text, again)
			}
		}
	})
}
