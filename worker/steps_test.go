package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"millrace/task"
	"millrace/worker"
)

// come are what functions come to in this test, by its name.
func come(ctx context.Context, f *worker.Function, to string) (string, error) {
	kind, name, _ := strings.Cut(to, " ")
	switch kind {
	case "step": // the caller does it, and leaves it
		s, todo, err := f.Begin(ctx, name)
		if todo {
			f.Leave()
			return "to do", err
		}
		return string(s.Result) + s.Error, err
	case "under": // is under way while the next one comes
		_, _, err := f.Begin(ctx, name)
		return "", err
	case "sleep":
		return "", f.Sleep(ctx, name, 1)
	case "await":
		data, came, err := f.Await(ctx, name, 0, nil)
		return fmt.Sprintf("%s %t", data, came), err
	case "call":
		ended, err := f.Call(ctx, name, 2, func(i int, key string) (task.ID, error) {
			if key != fmt.Sprintf("%s-%d-%d", name, 0, i) {
				return "", fmt.Errorf("another key: %s", key)
			}
			return task.ID(fmt.Sprintf("01JNAT0000000000000000000%d", i)), nil
		})
		return fmt.Sprint(len(ended)), err
	case "refused":
		_, err := f.Call(ctx, name, 1, func(int, string) (task.ID, error) { return "", errors.New("the queue is full") })
		return "", err
	case "now":
		is, err := f.Now(ctx)
		return string(is), err
	}
	is, err := f.Version(ctx, name, 3)
	return string(is), err
}

// What a function is told at each step, by what its task remembers, and what its attempt then comes to.
func TestFunction(t *testing.T) {
	t.Parallel()
	does := func(kind, name, result string) task.Step {
		return task.Step{Kind: kind, Name: name, Result: json.RawMessage(result)}
	}
	charge, now := does(task.StepDo, "charge", "7"), does(task.StepNow, "", `"noon"`)
	failed, open := task.Step{Kind: task.StepDo, Name: "mail", Error: "no post", Tries: 3}, task.Step{Kind: task.StepDo, Name: "mail", Error: "no post", Tries: 1, Open: true}
	for name, c := range map[string]struct {
		known []task.Step
		comes []string
		told  string // what the last one gave
		err   string // of the last one
		ends  string // what the attempt comes to; "" for success
	}{
		"the first step":                {nil, []string{"step charge"}, "to do", "", ""},
		"a remembered step":             {[]task.Step{charge}, []string{"step charge"}, "7", "", ""},
		"the step behind it":            {[]task.Step{charge}, []string{"step charge", "step ship"}, "to do", "", ""},
		"a remembered failure":          {[]task.Step{failed}, []string{"step mail"}, "no post", "", ""},
		"a failure that is tried again": {[]task.Step{open}, []string{"step mail"}, "to do", "", ""},
		"a remembered time":             {[]task.Step{now}, []string{"now"}, `"noon"`, "", ""},
		"another name":                  {[]task.Step{charge}, []string{"step pay"}, "", `step 1 was step "charge", and now is step "pay"`, "other steps than before"},
		"another kind":                  {[]task.Step{charge}, []string{"sleep charge"}, "", `step 1 was step "charge", and now is sleep "charge"`, "other steps than before"},
		"another order":                 {[]task.Step{now, charge}, []string{"step charge"}, "", "step 1 was now, and now is step", "other steps than before"},
		"a step less":                   {[]task.Step{charge, now}, []string{"step charge"}, "7", "", "it ends before now, which was step 2"},
		"it goes on after a difference": {[]task.Step{charge}, []string{"step pay", "step charge"}, "", "and now is", "other steps than before"},
		"two at once":                   {nil, []string{"under a", "step b"}, "", "while another step is under way", "while another step is under way"},
		"one behind the other":          {nil, []string{"step a", "step b"}, "to do", "", ""},
		"a signal":                      {nil, []string{"await yes"}, "", "waits", `waits for signal "yes"`},
		"a step behind a wait":          {nil, []string{"await yes", "step a"}, "", "waits", `waits for signal "yes"`},
		"a signal that came":            {[]task.Step{does(task.StepAwait, "yes", `{"data":true}`)}, []string{"await yes"}, "true true", "", ""},
		"a signal without data":         {[]task.Step{does(task.StepAwait, "yes", "")}, []string{"await yes"}, " true", "", ""},
		"a signal that did not come":    {[]task.Step{{Kind: task.StepAwait, Name: "yes", Error: "late"}}, []string{"await yes"}, " false", "", ""},
		"children":                      {nil, []string{"call parts"}, "", "waits", `waits for 2 children of step "parts"`},
		"a child that cannot be made":   {nil, []string{"refused parts", "step a"}, "to do", "", ""},
		"children that ended":           {[]task.Step{does(task.StepCall, "parts", `{"0":{"task":"a"},"1":{"task":"b"}}`)}, []string{"call parts"}, "2", "", ""},
		"another number of children":    {[]task.Step{does(task.StepCall, "parts", `{"0":{}}`)}, []string{"call parts"}, "", "had 1 calls, and now has 2", ""},
		"a remembered version":          {[]task.Step{does(task.StepAs, "way", "2")}, []string{"version way"}, "2", "", ""},
		"a task that passed before":     {[]task.Step{charge}, []string{"version way", "step charge"}, "7", "", ""},
		"the old way":                   {[]task.Step{charge}, []string{"version way"}, "0", "", "it ends before step"},
	} {
		f := worker.Function{Of: &worker.Attempt{Task: task.Task{Durable: &task.Durable{Steps: c.known}}}}
		var told string
		var err error
		for _, to := range c.comes {
			told, err = come(t.Context(), &f, to)
		}
		if c.told != "" && told != c.told || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: it is told %q, %v; want %q, %q", name, told, err, c.told, c.err)
		}
		if ends := f.Ends(nil); (ends == nil) != (c.ends == "") || ends != nil && !strings.Contains(ends.Error(), c.ends) {
			t.Errorf("%s: it ends with %v, want %q", name, ends, c.ends)
		}
	}
}
