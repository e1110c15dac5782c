package task

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestRetryDelay(t *testing.T) {
	s := func(n float64) Duration { return Duration(n * float64(time.Second)) }
	for name, c := range map[string]struct {
		retry  Retry
		chance float64
		want   []time.Duration // after 1, 2, … failures
	}{
		"default":            {Retry{}, 0.9, []time.Duration{1e9, 2e9, 4e9, 8e9, 16e9}},
		"exponential":        {Retry{Backoff: BackoffExponential, Min: s(0.5), MaxDelay: s(3)}, 0, []time.Duration{500e6, 1e9, 2e9, 3e9, 3e9}},
		"linear":             {Retry{Backoff: BackoffLinear, Min: s(2), MaxDelay: s(7)}, 0, []time.Duration{2e9, 4e9, 6e9, 7e9, 7e9}},
		"fixed":              {Retry{Backoff: BackoffFixed, Min: s(2)}, 0, []time.Duration{2e9, 2e9, 2e9}},
		"capped at once":     {Retry{Min: s(9), MaxDelay: s(2)}, 0, []time.Duration{2e9, 2e9}},
		"linear, capped":     {Retry{Backoff: BackoffLinear, Min: s(9), MaxDelay: s(2)}, 0, []time.Duration{2e9, 2e9}},
		"jitter, no chance":  {Retry{Backoff: BackoffFixed, Min: s(10), Jitter: 1}, 0, []time.Duration{10e9}},
		"jitter, half":       {Retry{Backoff: BackoffFixed, Min: s(10), Jitter: 0.2}, 0.5, []time.Duration{9e9}},
		"jitter, everything": {Retry{Min: s(10), Jitter: 1}, 0.75, []time.Duration{2500e6, 5e9}},
	} {
		for i, want := range c.want {
			if got := c.retry.Delay(i+1, c.chance); got != want {
				t.Errorf("%s: the delay after %d failures is %v, want %v", name, i+1, got, want)
			}
		}
	}
}

// However large the numbers, a delay lies between nothing and its cap.
func TestRetryDelayIsBounded(t *testing.T) {
	for _, backoff := range []string{"", BackoffExponential, BackoffLinear, BackoffFixed} {
		for _, first := range []Duration{0, 1, 3, Duration(time.Hour), math.MaxInt64 - 1, math.MaxInt64} {
			for _, limit := range []Duration{0, 1, Duration(time.Minute), math.MaxInt64} {
				r := Retry{Backoff: backoff, Min: first, MaxDelay: limit}
				top := limit.Std()
				if top == 0 {
					top = DefaultRetryMaxDelay
				}
				before := time.Duration(0)
				for _, n := range []int{-1, 0, 1, 2, 10, 62, 63, 64, 65, 10_000, math.MaxInt} {
					got := r.Delay(n, 0)
					if got <= 0 || got > top || got < before {
						t.Fatalf("%+v: the delay after %d failures is %v, before it was %v and the cap is %v", r, n, got, before, top)
					}
					before = got
				}
			}
		}
	}
}

func TestRetryAllows(t *testing.T) {
	for name, c := range map[string]struct {
		retry    Retry
		class    string
		failures int
		want     bool
	}{
		"none":                {Retry{}, ReasonExit, 1, false},
		"first":               {Retry{Max: 2}, ReasonExit, 1, true},
		"last":                {Retry{Max: 2}, ReasonExit, 2, true},
		"one too many":        {Retry{Max: 2}, ReasonExit, 3, false},
		"on it":               {Retry{Max: 1, On: []string{ReasonNetwork}}, ReasonNetwork, 1, true},
		"on another":          {Retry{Max: 1, On: []string{ReasonNetwork}}, ReasonExit, 1, false},
		"not on it":           {Retry{Max: 1, NotOn: []string{ReasonMemory}}, ReasonMemory, 1, false},
		"not on another":      {Retry{Max: 1, NotOn: []string{ReasonMemory}}, ReasonExit, 1, true},
		"on and not on":       {Retry{Max: 1, On: []string{ReasonExit}, NotOn: []string{ReasonExit}}, ReasonExit, 1, false},
		"a class of tomorrow": {Retry{Max: 1}, "gravity", 1, true},
	} {
		if got := c.retry.Allows(c.class, c.failures); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

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
		"max below zero":    {retry(Retry{Max: -1}), "retry.max is -1"},
		"jitter below zero": {retry(Retry{Jitter: -0.1}), "retry.jitter is -0.1"},
		"jitter above one":  {retry(Retry{Jitter: 1.1}), "retry.jitter is 1.1"},
		"jitter not a number": {
			retry(Retry{Jitter: math.NaN()}), "retry.jitter is NaN"},
		"jitter of one":    {retry(Retry{Jitter: 1}), ""},
		"backoff":          {retry(Retry{Backoff: "cubic"}), `retry.backoff is "cubic", want exponential, linear or fixed`},
		"on":               {retry(Retry{On: []string{"exit", "rain"}}), `no class of failure "rain"`},
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
		Timeout: Timeout{Pending: 1, Run: Duration(time.Minute), Stop: Duration(time.Hour)},
		Retry:   Retry{Max: 1, Backoff: BackoffFixed, Min: 1, MaxDelay: 2, Jitter: 0.5, On: []string{ReasonExit}, NotOn: []string{ReasonTask}},
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
