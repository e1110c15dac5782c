package job

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"millrace/task/value"
)

func TestSpecText(t *testing.T) {
	for want, s := range map[string]*Spec{
		"": nil, "h": {Handler: "h"}, "a | b": {Run: &Run{Shell: "a | b"}}, "ls -l": {Run: &Run{Argv: []string{"ls", "-l"}}},
	} {
		if got := s.Text(); got != want {
			t.Errorf("%+v reads %q, want %q", s, got, want)
		}
	}
}

// A spec survives a round trip through the log.
func TestSpecJSON(t *testing.T) {
	want := Spec{
		Run:     &Run{Argv: []string{"a"}, Dir: "/d", Env: map[string]string{"K": "v"}},
		Timeout: Timeout{Pending: 1, Run: value.Duration(time.Minute), Stop: value.Duration(time.Hour)},
		Retry:   Retry{Max: 1, Backoff: BackoffFixed, Min: 1, MaxDelay: 2, Jitter: 0.5, On: []string{value.Exit}, NotOn: []string{value.Task}},
	}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Spec
	if err := json.Unmarshal(text, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s became %+v, %v", text, got, err)
	}
	if text, err := json.Marshal(Spec{Handler: "h"}); err != nil || string(text) != `{"handler":"h"}` {
		t.Errorf("a small spec is %s, %v; want what is set and no more", text, err)
	}
}

func TestGrace(t *testing.T) {
	if got := (Timeout{}).Grace(); got != DefaultStop {
		t.Errorf("the grace of none is %v, want %v", got, DefaultStop)
	}
	if got := (Timeout{Stop: 7}).Grace(); got != 7 {
		t.Errorf("the grace is %v, want what is set", got)
	}
}
