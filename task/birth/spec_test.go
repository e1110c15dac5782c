package birth_test

import (
	"math"
	"strings"
	"testing"

	"millrace/events/logtest"
	"millrace/task/job"
)

// A refusal names the field in a job file's spelling.
func TestSpecValidate(t *testing.T) {
	argv := func(r job.Run) *job.Spec { return &job.Spec{Run: &r} }
	retry := func(r job.Retry) *job.Spec { return &job.Spec{Handler: "h", Retry: r} }
	timeout := func(o job.Timeout) *job.Spec { return &job.Spec{Handler: "h", Timeout: o} }
	for name, c := range map[string]struct {
		spec *job.Spec
		want string // part of the message, "" if it is valid
	}{
		"argv":              {argv(job.Run{Argv: []string{"ls", ""}, Dir: "/", Env: map[string]string{"A": "", "B": "x=y"}}), ""},
		"shell":             {argv(job.Run{Shell: "ls | wc"}), ""},
		"handler":           {&job.Spec{Handler: "h"}, ""},
		"full":              {logtest.Spec, ""},
		"nothing":           {&job.Spec{}, "set run.argv, run.shell, run.program or handler"},
		"both":              {&job.Spec{Run: &job.Run{Shell: "x"}, Handler: "h"}, "run and handler are both set"},
		"handler's name":    {&job.Spec{Handler: "a b"}, `handler name "a b"`},
		"empty run":         {argv(job.Run{}), "run: set argv (a list), shell (a line) or program (a line)"},
		"argv and shell":    {argv(job.Run{Argv: []string{"a"}, Shell: "b"}), "argv and shell are both set"},
		"no program":        {argv(job.Run{Argv: []string{"", "a"}}), "run.argv: the program's name is empty"},
		"zero in argv":      {argv(job.Run{Argv: []string{"a", "b\x00"}}), "zero byte"},
		"zero in shell":     {argv(job.Run{Shell: "a\x00"}), "zero byte"},
		"zero in dir":       {argv(job.Run{Shell: "a", Dir: "\x00"}), "zero byte"},
		"unnamed variable":  {argv(job.Run{Shell: "a", Env: map[string]string{"": "x"}}), "run.env"},
		"variable with =":   {argv(job.Run{Shell: "a", Env: map[string]string{"A=B": "x"}}), `run.env: "A=B"`},
		"zero in variable":  {argv(job.Run{Shell: "a", Env: map[string]string{"A": "\x00"}}), "run.env"},
		"long argument":     {argv(job.Run{Argv: []string{"a", strings.Repeat("x", job.MaxVariable)}}), "131072 bytes"},
		"long shell line":   {argv(job.Run{Shell: strings.Repeat("x", job.MaxVariable)}), "131072 bytes"},
		"longest argument":  {argv(job.Run{Argv: []string{"a", strings.Repeat("x", job.MaxVariable-1)}}), ""},
		"long variable":     {argv(job.Run{Shell: "a", Env: map[string]string{"AB": strings.Repeat("x", job.MaxVariable-3)}}), "run.env: AB has 131072 bytes"},
		"longest variable":  {argv(job.Run{Shell: "a", Env: map[string]string{"AB": strings.Repeat("x", job.MaxVariable-4)}}), ""},
		"long setup":        {&job.Spec{Run: &job.Run{Shell: "a"}, Setup: []string{strings.Repeat("x", job.MaxVariable)}}, "setup: a line has 131072 bytes"},
		"max below zero":    {retry(job.Retry{Max: -1}), "retry.max is -1"},
		"jitter below zero": {retry(job.Retry{Jitter: -0.1}), "retry.jitter is -0.1"},
		"jitter above one":  {retry(job.Retry{Jitter: 1.1}), "retry.jitter is 1.1"},
		"jitter not a number": {
			retry(job.Retry{Jitter: math.NaN()}), "retry.jitter is NaN"},
		"jitter of one":    {retry(job.Retry{Jitter: 1}), ""},
		"backoff":          {retry(job.Retry{Backoff: "cubic"}), `retry.backoff is "cubic", want exponential, linear or fixed`},
		"on":               {retry(job.Retry{On: []string{"exit", "rain"}}), `retry.on: there is no class of failure "rain"`},
		"on a code":        {retry(job.Retry{On: []string{"exit=75", "exit=64-78"}}), ""},
		"on code 0":        {retry(job.Retry{On: []string{"exit=0"}}), "from 1 to 255"},
		"on codes":         {retry(job.Retry{NotOn: []string{"exit=78-64"}}), "retry.not_on: \"exit=78-64\" names no exit codes"},
		"budget":           {retry(job.Retry{Budget: -1}), "retry.budget is -1ns"},
		"not on":           {retry(job.Retry{NotOn: []string{"rain"}}), `no class of failure "rain"`},
		"min below zero":   {retry(job.Retry{Min: -1}), "retry.min is -1ns"},
		"delay below zero": {retry(job.Retry{MaxDelay: -1}), "retry.max_delay is -1ns"},
		"pending":          {timeout(job.Timeout{Pending: -1}), "timeout.pending is -1ns"},
		"run":              {timeout(job.Timeout{Run: -1}), "timeout.run is -1ns"},
		"stop":             {timeout(job.Timeout{Stop: -1}), "timeout.stop is -1ns"},
	} {
		logtest.CheckError(t, name, c.spec.Validate(), c.want)
	}
}

func TestJobValidate(t *testing.T) {
	for name, c := range map[string]struct {
		job  job.Job
		want string
	}{
		"good":            {job.Job{Name: "nightly-1", Queue: "q", Labels: map[string]string{"a": ""}, Spec: *logtest.Spec}, ""},
		"no name":         {job.Job{Spec: *logtest.Spec}, `job name ""`},
		"a name of parts": {job.Job{Name: "a.b", Spec: *logtest.Spec}, `job name "a.b"`},
		"queue":           {job.Job{Name: "j", Queue: "*", Spec: *logtest.Spec}, `queue name "*"`},
		"label":           {job.Job{Name: "j", Labels: map[string]string{"": "x"}, Spec: *logtest.Spec}, "labels: a label has no name"},
		"spec":            {job.Job{Name: "j"}, "nothing to run"},
	} {
		logtest.CheckError(t, name, c.job.Validate(), c.want)
	}
}
