package view

import (
	"encoding/json"
	"testing"

	"millrace/task"
	"millrace/task/job"
)

func TestHasParam(t *testing.T) {
	params := json.RawMessage(`{"customer":"acme","n":3,"huge":12345678901234567890,"on":true,"none":null,"text":"3","at":{"zone":"eu","a.b":1},"x.y":"dotted","list":[1,2],"empty":""}`)
	for _, c := range []struct {
		name, typed string
		want        bool
	}{
		{"customer", "acme", true}, {"customer", "Acme", false}, {"customer", "acm", false}, {"customer", `"acme"`, false}, {"missing", "acme", false},
		{"n", "3", true}, {"n", "3.0", true}, {"n", "3e0", true}, {"n", "4", false}, {"n", "three", false}, {"text", "3", true}, {"text", "3.0", false},
		{"huge", "12345678901234567890", true}, {"huge", "12345678901234567891", false},
		{"on", "true", true}, {"on", "false", false}, {"none", "null", true}, {"none", "", false}, {"empty", "", true},
		{"at.zone", "eu", true}, {"at.a.b", "1", true}, {"x.y", "dotted", true}, {"at", `{"a.b":1, "zone":"eu"}`, true}, {"list", "[1, 2]", true}, {"list", "[2,1]", false},
	} {
		if got := HasParam(params, c.name, c.typed); got != c.want {
			t.Errorf("%s is %s: %v, want %v", c.name, c.typed, got, c.want)
		}
	}
	if HasParam(nil, "a", "b") || HasParam(json.RawMessage(`[1]`), "a", "b") {
		t.Error("what is no object has a parameter")
	}
}

// A script is the same for all tasks of a job: a word in it would find all of them.
func TestTextIsNotInScripts(t *testing.T) {
	script := &job.Spec{Run: &job.Run{Shell: "case $1 in umbrella) exit 1;; esac"}}
	for name, c := range map[string]struct {
		work task.Work
		want bool
	}{
		"a script of a job":     {task.Work{Job: "crawl", Spec: script}, false},
		"a script without one":  {task.Work{Spec: script}, true},
		"a command of a job":    {task.Work{Job: "crawl", Spec: &job.Spec{Run: &job.Run{Argv: []string{"crawl", "umbrella"}}}}, true},
		"the name of the job":   {task.Work{Job: "umbrella", Spec: script}, true},
		"the handler of a task": {task.Work{Job: "crawl", Spec: &job.Spec{Handler: "umbrella"}}, true},
	} {
		f := Filter{Text: "Umbrella"}
		if got := f.Match(&task.Task{ID: "01J", State: task.Pending, Work: c.work}); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
