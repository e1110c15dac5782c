package task

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"millrace/task/reason"
	"millrace/task/value"
)

// A refusal names the field as a job file spells it.
func TestSpecValidate(t *testing.T) {
	argv := func(r Run) *Spec { return &Spec{Run: &r} }
	retry := func(r Retry) *Spec { return &Spec{Handler: "h", Retry: r} }
	timeout := func(o Timeout) *Spec { return &Spec{Handler: "h", Timeout: o} }
	for name, c := range map[string]struct {
		spec *Spec
		want string // part of the message, "" if it is valid
	}{
		"argv":              {argv(Run{Argv: []string{"ls", ""}, Dir: "/", Env: map[string]string{"A": "", "B": "x=y"}}), ""},
		"shell":             {argv(Run{Shell: "ls | wc"}), ""},
		"handler":           {&Spec{Handler: "h"}, ""},
		"full":              {spec, ""},
		"nothing":           {&Spec{}, "set run.argv, run.shell or handler"},
		"both":              {&Spec{Run: &Run{Shell: "x"}, Handler: "h"}, "run and handler are both set"},
		"handler's name":    {&Spec{Handler: "a b"}, `handler name "a b"`},
		"empty run":         {argv(Run{}), "run: set argv (a list) or shell (a line)"},
		"argv and shell":    {argv(Run{Argv: []string{"a"}, Shell: "b"}), "argv and shell are both set"},
		"no program":        {argv(Run{Argv: []string{"", "a"}}), "run.argv: the program's name is empty"},
		"zero in argv":      {argv(Run{Argv: []string{"a", "b\x00"}}), "zero byte"},
		"zero in shell":     {argv(Run{Shell: "a\x00"}), "zero byte"},
		"zero in dir":       {argv(Run{Shell: "a", Dir: "\x00"}), "zero byte"},
		"unnamed variable":  {argv(Run{Shell: "a", Env: map[string]string{"": "x"}}), "run.env"},
		"variable with =":   {argv(Run{Shell: "a", Env: map[string]string{"A=B": "x"}}), `run.env: "A=B"`},
		"zero in variable":  {argv(Run{Shell: "a", Env: map[string]string{"A": "\x00"}}), "run.env"},
		"long argument":     {argv(Run{Argv: []string{"a", strings.Repeat("x", MaxVariable)}}), "131072 bytes"},
		"long shell line":   {argv(Run{Shell: strings.Repeat("x", MaxVariable)}), "131072 bytes"},
		"longest argument":  {argv(Run{Argv: []string{"a", strings.Repeat("x", MaxVariable-1)}}), ""},
		"long variable":     {argv(Run{Shell: "a", Env: map[string]string{"AB": strings.Repeat("x", MaxVariable-3)}}), "run.env: AB has 131072 bytes"},
		"longest variable":  {argv(Run{Shell: "a", Env: map[string]string{"AB": strings.Repeat("x", MaxVariable-4)}}), ""},
		"long setup":        {&Spec{Run: &Run{Shell: "a"}, Setup: []string{strings.Repeat("x", MaxVariable)}}, "setup: a line has 131072 bytes"},
		"max below zero":    {retry(Retry{Max: -1}), "retry.max is -1"},
		"jitter below zero": {retry(Retry{Jitter: -0.1}), "retry.jitter is -0.1"},
		"jitter above one":  {retry(Retry{Jitter: 1.1}), "retry.jitter is 1.1"},
		"jitter not a number": {
			retry(Retry{Jitter: math.NaN()}), "retry.jitter is NaN"},
		"jitter of one":    {retry(Retry{Jitter: 1}), ""},
		"backoff":          {retry(Retry{Backoff: "cubic"}), `retry.backoff is "cubic", want exponential, linear or fixed`},
		"on":               {retry(Retry{On: []string{"exit", "rain"}}), `retry.on: there is no class of failure "rain"`},
		"on a code":        {retry(Retry{On: []string{"exit=75", "exit=64-78"}}), ""},
		"on code 0":        {retry(Retry{On: []string{"exit=0"}}), "from 1 to 255"},
		"on codes":         {retry(Retry{NotOn: []string{"exit=78-64"}}), "retry.not_on: \"exit=78-64\" names no exit codes"},
		"budget":           {retry(Retry{Budget: -1}), "retry.budget is -1ns"},
		"not on":           {retry(Retry{NotOn: []string{"rain"}}), `no class of failure "rain"`},
		"min below zero":   {retry(Retry{Min: -1}), "retry.min is -1ns"},
		"delay below zero": {retry(Retry{MaxDelay: -1}), "retry.max_delay is -1ns"},
		"pending":          {timeout(Timeout{Pending: -1}), "timeout.pending is -1ns"},
		"run":              {timeout(Timeout{Run: -1}), "timeout.run is -1ns"},
		"stop":             {timeout(Timeout{Stop: -1}), "timeout.stop is -1ns"},
	} {
		checkError(t, name, c.spec.Validate(), c.want)
	}
}

func TestJobValidate(t *testing.T) {
	for name, c := range map[string]struct {
		job  Job
		want string
	}{
		"good":            {Job{Name: "nightly-1", Queue: "q", Labels: map[string]string{"a": ""}, Spec: *spec}, ""},
		"no name":         {Job{Spec: *spec}, `job name ""`},
		"a name of parts": {Job{Name: "a.b", Spec: *spec}, `job name "a.b"`},
		"queue":           {Job{Name: "j", Queue: "*", Spec: *spec}, `queue name "*"`},
		"label":           {Job{Name: "j", Labels: map[string]string{"": "x"}, Spec: *spec}, "labels: a label has no name"},
		"spec":            {Job{Name: "j"}, "nothing to run"},
	} {
		checkError(t, name, c.job.Validate(), c.want)
	}
}

func checkError(t *testing.T, name string, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: %v, want no error", name, err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("%s: %v, want %q", name, err, want)
	}
}

func TestSpecText(t *testing.T) {
	for want, s := range map[string]*Spec{
		"": nil, "h": {Handler: "h"}, "a | b": {Run: &Run{Shell: "a | b"}}, "ls -l": {Run: &Run{Argv: []string{"ls", "-l"}}},
	} {
		if got := s.Text(); got != want {
			t.Errorf("%+v reads %q, want %q", s, got, want)
		}
	}
}

// A spec comes out of the log as it went in.
func TestSpecJSON(t *testing.T) {
	want := Spec{
		Run:     &Run{Argv: []string{"a"}, Dir: "/d", Env: map[string]string{"K": "v"}},
		Timeout: Timeout{Pending: 1, Run: value.Duration(time.Minute), Stop: value.Duration(time.Hour)},
		Retry:   Retry{Max: 1, Backoff: BackoffFixed, Min: 1, MaxDelay: 2, Jitter: 0.5, On: []string{reason.Exit}, NotOn: []string{reason.Task}},
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
