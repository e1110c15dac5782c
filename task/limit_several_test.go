package task_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"millrace/events/logtest"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/value"
)

func TestSeveralCounters(t *testing.T) {
	w := func(s job.Spec) *task.Work {
		return &task.Work{Job: "mail", Route: "images.5", Params: json.RawMessage(`{"to":"acme","by":"acme"}`), Spec: &s}
	}
	for name, c := range map[string]struct {
		spec job.Spec
		want string
	}{
		"job and key": {job.Spec{Concurrency: limit.Concurrencies{{Max: 5}, {Max: 1, Key: "{params.to}"}}}, "job:mail 5, key:mail/acme 1"},
		"queue":       {job.Spec{Concurrency: limit.Concurrencies{{Max: 5, Key: "/{queue}"}}, Rate: limit.Rates{{Limit: 1, Key: "/{queue}"}}}, "key:/images 5, rate:/images"},
		"the same, filled in": {job.Spec{Concurrency: limit.Concurrencies{{Max: 3, Key: "{params.to}"}, {Max: 2, Key: "{params.by}", OnLimit: limit.Skip}, {Max: 4, Key: "acme"}}},
			"key:mail/acme 2 skip"},
		"two rates of a key": {job.Spec{Rate: limit.Rates{{Limit: 10}, {Limit: 1000, Per: value.Duration(time.Hour)}, {Limit: 5, Per: value.Duration(time.Minute), Key: "x"}}},
			"rate:mail, rate:mail@1h0m0s, rate:mail/x"},
		"a wrong key": {job.Spec{Concurrency: limit.Concurrencies{{Max: 1}, {Max: 1, Key: "{params.x}"}}}, `concurrency[1].key: {params.x}: the task has no parameter "x"`},
	} {
		counters, err := w(c.spec).Counters()
		var all []string
		for _, of := range counters {
			text := of.Name
			if of.Max > 0 {
				text += fmt.Sprintf(" %d %s", of.Max, of.OnLimit)
			}
			all = append(all, strings.TrimSpace(text))
		}
		got := strings.Join(all, ", ")
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestSeveralLimitsValidate(t *testing.T) {
	for want, s := range map[string]job.Spec{
		"concurrency[1].max is missing":     {Concurrency: limit.Concurrencies{{Max: 1}, {Key: "a"}}},
		"rate[0].limit is missing":          {Rate: limit.Rates{{}, {Limit: 1}}},
		"concurrency[1].key is":             {Concurrency: limit.Concurrencies{{Max: 1}, {Max: 1, Key: "{queue.x}"}}},
		"concurrency has 9 entries, want a": {Concurrency: make(limit.Concurrencies, 9)},
		"rate has 9 entries, want at most":  {Rate: make(limit.Rates, 9)},
	} {
		s.Handler = "h"
		if err := s.Validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for _, s := range []birth.Submission{{}, {Overrides: job.Overrides{Concurrency: limit.Concurrencies{}, Rate: limit.Rates{}}}, {Overrides: job.Overrides{Concurrency: limit.Concurrencies{{Max: 7}}}}} {
		birth, err := birth.Of(s, &job.Job{Name: "j", Spec: job.Spec{Handler: "h", Concurrency: limit.Concurrencies{{Max: 1}}, Rate: limit.Rates{{Limit: 1}}}}, 1, logtest.Noon)
		if err != nil {
			t.Fatal(err)
		}
		want := "[{1  }] [{1 0s 0 }]"
		switch {
		case len(s.Concurrency) > 0:
			want = "[{7  }] [{1 0s 0 }]"
		case s.Concurrency != nil:
			want = "[] []"
		}
		if got := fmt.Sprint(birth.Spec.Concurrency, birth.Spec.Rate); got != want {
			t.Errorf("%+v makes %s, want %s", s, got, want)
		}
	}
}

func TestRefuseIsOfOneLimit(t *testing.T) {
	held := task.Task{ID: "T", State: task.Held, Work: task.Work{Job: "j", Holds: []string{task.HoldLimit}, Spec: &job.Spec{Handler: "h",
		Concurrency: limit.Concurrencies{{Max: 1, OnLimit: limit.Skip}, {Max: 1, Key: "k", OnLimit: limit.Fail}}}}}
	for limit, want := range map[string]task.Event{
		"job:j":   task.CancelConfirmed{Code: value.Limit, Reason: "full"},
		"key:j/k": task.GivenUp{Reason: value.Limit, Detail: "full"},
	} {
		if got, err := task.Decide(held, task.Refuse{Limit: limit, Detail: "full"}, logtest.Noon); got != want || err != nil {
			t.Errorf("%s: %+v, %v", limit, got, err)
		}
	}
}
