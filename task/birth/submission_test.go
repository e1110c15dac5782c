package birth_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"millrace/events/logtest"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/param"
	"millrace/task/value"
)

// Set fields win, one parameter and label at a time. Unset fields stay.
func TestSubmissionWith(t *testing.T) {
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	is := birth.Submission{Job: "j", Queue: "q", Priority: 2, Overrides: job.Overrides{Slots: 3}, Group: "g", Labels: map[string]string{"a": "1", "b": "1"}, Params: map[string]json.RawMessage{"x": raw("1")}}
	over := birth.Submission{Queue: "r", Retries: new(int), Labels: map[string]string{"b": "2"}, Params: map[string]json.RawMessage{"y": raw("2")}, Overrides: job.Overrides{Concurrency: limit.Concurrencies{}}}
	want := birth.Submission{Job: "j", Queue: "r", Priority: 2, Group: "g", Retries: new(int), Overrides: job.Overrides{Slots: 3, Concurrency: limit.Concurrencies{}},
		Labels: map[string]string{"a": "1", "b": "2"}, Params: map[string]json.RawMessage{"x": raw("1"), "y": raw("2")}}
	if got := is.With(over); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := is.With(birth.Submission{}); !reflect.DeepEqual(got, is) || len(is.Labels) != 2 || is.Labels["b"] != "1" {
		t.Errorf("with nothing it is %+v", got)
	}
	if got := (birth.Submission{}).With(is); !reflect.DeepEqual(got, is) {
		t.Errorf("of nothing it is %+v", got)
	}
}

func TestBirth(t *testing.T) {
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	j := &job.Job{Name: "j", Group: "of the job", Queue: "images", Spec: *logtest.Bounded,
		Labels: map[string]string{"a": "1", "b": "1"}, Params: param.Params{Defaults: map[string]json.RawMessage{"x": raw("1"), "y": raw("1")}}}
	adHoc := &job.Spec{Handler: "h"}
	pending, retries := value.Duration(time.Second), 9
	overridden := *logtest.Bounded
	overridden.Timeout.Pending, overridden.Timeout.Run, overridden.Retry.Max = pending, pending, retries

	for name, c := range map[string]struct {
		asked birth.Submission
		job   *job.Job
		want  task.Submitted
		err   string
	}{
		"ad hoc": {birth.Submission{Spec: adHoc}, nil, task.Submitted{Work: task.Work{Spec: adHoc, Route: "default.5"}}, ""},
		"a job": {birth.Submission{Job: "j"}, j, task.Submitted{Work: task.Work{Job: "j", Revision: 3, Spec: &j.Spec, Route: "images.5", Group: "of the job",
			Labels: j.Labels, Params: raw(`{"x":1,"y":1}`), StartBy: logtest.Noon.Add(5 * time.Minute)}}, ""},
		"what is asked wins": {birth.Submission{Job: "j", Queue: "q", Group: "g", Parent: "p", Labels: map[string]string{"b": "2"}, Params: map[string]json.RawMessage{"y": raw("2")},
			Pending: &pending, Run: &pending, Retries: &retries, Delay: value.Duration(time.Hour)}, j,
			task.Submitted{Due: logtest.Noon.Add(time.Hour), Work: task.Work{Job: "j", Revision: 3, Spec: &overridden, Route: "q.5", Group: "g", Parent: "p",
				Labels: map[string]string{"a": "1", "b": "2"}, Params: raw(`{"x":1,"y":2}`), StartBy: logtest.Noon.Add(time.Hour + time.Second)}}, ""},
		"at a time":        {birth.Submission{Spec: adHoc, At: logtest.Noon.Add(1)}, nil, task.Submitted{Work: task.Work{Spec: adHoc, Route: "default.5"}, Due: logtest.Noon.Add(1)}, ""},
		"at a time gone":   {birth.Submission{Spec: adHoc, At: logtest.Noon}, nil, task.Submitted{Work: task.Work{Spec: adHoc, Route: "default.5"}}, ""},
		"both":             {birth.Submission{Spec: adHoc}, j, task.Submitted{}, "job and spec are both set"},
		"neither":          {birth.Submission{}, nil, task.Submitted{}, "nothing to run"},
		"an empty spec":    {birth.Submission{Spec: &job.Spec{}}, nil, task.Submitted{}, "nothing to run"},
		"a bad override":   {birth.Submission{Job: "j", Run: new(value.Duration(-1))}, j, task.Submitted{}, "timeout.run is -1ns"},
		"a bad queue":      {birth.Submission{Spec: adHoc, Queue: "a.b"}, nil, task.Submitted{}, `queue name "a.b"`},
		"two times":        {birth.Submission{Spec: adHoc, Delay: 1, At: logtest.Noon}, nil, task.Submitted{}, "delay and at are both set"},
		"a time before":    {birth.Submission{Spec: adHoc, Delay: -1}, nil, task.Submitted{}, "delay is -1ns"},
		"params, no JSON":  {birth.Submission{Spec: adHoc, Params: map[string]json.RawMessage{"x": raw("{")}}, nil, task.Submitted{}, "params"},
		"labels of no job": {birth.Submission{Spec: adHoc, Labels: map[string]string{"a": "1"}}, nil, task.Submitted{Work: task.Work{Spec: adHoc, Route: "default.5", Labels: map[string]string{"a": "1"}}}, ""},
	} {
		before, err := json.Marshal(j)
		if err != nil {
			t.Fatal(err)
		}
		got, err := birth.Of(c.asked, c.job, revisionOf(c.job), logtest.Noon)
		logtest.CheckError(t, name, err, c.err)
		if err == nil && !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got\n%+v\nwant\n%+v", name, got, c.want)
		}
		if after, err := json.Marshal(j); err != nil || string(after) != string(before) {
			t.Errorf("%s: the job was changed to %s", name, after)
		}
	}
	if e, err := birth.Of(birth.Submission{Job: "j"}, j, 3, logtest.Noon); err != nil || e.Spec != &j.Spec {
		t.Errorf("the spec of the job is copied (%v) though nothing replaces a part of it", err)
	}
}

// A submission replaces each rule of a spec, except the breaker, which is a job's alone.
func TestEachRuleIsReplaced(t *testing.T) {
	for _, r := range job.Rules {
		with := &job.Spec{Handler: "h"}
		r.Least(with)
		text, err := json.Marshal(with)
		if err != nil {
			t.Fatal(err)
		}
		var s birth.Submission
		if err := json.Unmarshal(text, &s); err != nil {
			t.Fatal(err)
		}
		e, err := birth.Of(s, &job.Job{Name: "j", Spec: job.Spec{Handler: "h"}}, 1, logtest.Noon)
		if want := r.Name != value.Breaker; err != nil || r.Has(e.Spec) != want {
			t.Errorf("of a submission with %s the task has the rule: %v (%v), want %v", r.Name, r.Has(e.Spec), err, want)
		}
	}
}

func revisionOf(j *job.Job) uint64 {
	if j == nil {
		return 0
	}
	return 3
}

// A title is one line, of bounded length; a copy keeps it unless it gets another one.
func TestTitle(t *testing.T) {
	t.Parallel()
	spec := &job.Spec{Handler: "h"}
	for title, ok := range map[string]bool{"": true, "März <b>": true, strings.Repeat("x", birth.MaxTitle): true, strings.Repeat("x", birth.MaxTitle+1): false, "two\nlines": false, "\x1b[31m": false, "\xff": false} {
		e, err := birth.Of(birth.Submission{Spec: spec, Title: title}, nil, 0, time.Now())
		if ok != (err == nil) || ok && e.Title != title {
			t.Errorf("%q: %q, %v", title, e.Title, err)
		}
	}
	was := task.Task{Work: task.Work{Spec: spec, Route: "default.5", Title: "one"}}
	for given, want := range map[string]string{"": "one", "other": "other"} {
		if e, err := birth.Copy(was, nil, birth.Submission{Title: given}, time.Now()); err != nil || e.Title != want {
			t.Errorf("a copy with %q has %q, %v", given, e.Title, err)
		}
	}
}
