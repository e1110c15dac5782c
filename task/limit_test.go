package task_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"millrace/task"
	"millrace/task/job"
	"millrace/task/limit"
)

func TestCounters(t *testing.T) {
	five := limit.Concurrency{Max: 5}
	keyed := func(key string) job.Spec { return job.Spec{Concurrency: limit.Concurrencies{{Max: 2, Key: key}}} }
	for name, c := range map[string]struct {
		work task.Work
		spec job.Spec
		want string
	}{
		"none":         {task.Work{Job: "mail"}, job.Spec{}, "[]"},
		"job":          {task.Work{Job: "mail"}, job.Spec{Concurrency: limit.Concurrencies{five}}, "[job:mail]"},
		"no job":       {task.Work{Route: "images.5"}, job.Spec{Concurrency: limit.Concurrencies{five}}, "[queue:images]"},
		"own route":    {task.Work{Route: "@n1.5"}, job.Spec{Concurrency: limit.Concurrencies{five}, Place: job.Place{Queue: "images"}}, "[queue:images]"},
		"parameter":    {task.Work{Job: "mail", Params: json.RawMessage(`{"to":"acme"}`)}, keyed("{params.to}"), "[key:mail/acme]"},
		"number":       {task.Work{Job: "mail", Params: json.RawMessage(`{"to":[1,2]}`)}, keyed("x-{params.to}-y"), "[key:mail/x-[1,2]-y]"},
		"label":        {task.Work{Job: "mail", Labels: map[string]string{"a.b": "c"}}, keyed("{labels.a.b}"), "[key:mail/c]"},
		"common":       {task.Work{Job: "mail"}, keyed("/shared"), "[key:/shared]"},
		"key, no job":  {task.Work{Route: "images.5"}, keyed("a"), "[key:queue.images/a]"},
		"rate":         {task.Work{Job: "mail"}, job.Spec{Rate: limit.Rates{{Limit: 1}}}, "[rate:mail]"},
		"both":         {task.Work{Job: "mail"}, job.Spec{Concurrency: limit.Concurrencies{five}, Rate: limit.Rates{{Limit: 1, Key: "/k"}}}, "[job:mail rate:/k]"},
		"no parameter": {task.Work{Job: "mail", Params: json.RawMessage(`{"by":1}`)}, keyed("{params.to}"), `concurrency.key: {params.to}: the task has no parameter "to"`},
		"no label":     {task.Work{Job: "mail"}, job.Spec{Rate: limit.Rates{{Limit: 1, Key: "{labels.x}"}}}, `rate.key: {labels.x}: the task has no label "x"`},
		"too long":     {task.Work{Job: "mail", Labels: map[string]string{"x": strings.Repeat("x", 300)}}, keyed("{labels.x}"), `concurrency.key: "{labels.x}" becomes 300 bytes long, want at most 256`},
	} {
		c.work.Spec = &c.spec
		counters, err := c.work.Counters()
		names := []string{}
		for _, counter := range counters {
			names = append(names, counter.Name)
		}
		got := fmt.Sprint(names)
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
