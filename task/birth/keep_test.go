package birth_test

import (
	"testing"
	"time"

	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/value"
)

func TestKeep(t *testing.T) {
	const day = value.Duration(24 * time.Hour)
	for _, c := range []struct {
		name            string
		keep            job.Keep
		state           task.State
		output, records time.Duration
		says            string // why output is dropped
	}{
		{"the job says nothing", job.Keep{}, task.Finished, 0, 0, "keep.done"},
		{"done", job.Keep{Done: day, Failed: 7 * day}, task.Finished, day.Std(), day.Std(), "keep.done"},
		{"failed", job.Keep{Done: day, Failed: 7 * day}, task.Cancelled, 7 * day.Std(), 7 * day.Std(), "keep.failed"},
		{"logs sooner", job.Keep{Failed: 7 * day, Logs: day}, task.Error, day.Std(), 7 * day.Std(), "keep.logs"},
		{"logs alone", job.Keep{Logs: day}, task.Abnormal, day.Std(), 0, "keep.logs"},
		{"logs are never kept for longer", job.Keep{Done: day, Logs: 7 * day}, task.Finished, day.Std(), day.Std(), "keep.done"},
	} {
		output, says := c.keep.Output(c.state == task.Finished)
		records, _ := c.keep.Records(c.state == task.Finished)
		if output != c.output || records != c.records || says != c.says {
			t.Errorf("%s: output %v by %s, records %v", c.name, output, says, records)
		}
	}
	if err := (&job.Spec{Handler: "h", Keep: job.Keep{Logs: -1}}).Validate(); err == nil {
		t.Error("a time below zero is taken")
	}
	parent := &task.Task{ID: "01K9XA7F3BQZ8M4T2VJ6C0DPRN", Work: task.Work{Spec: &job.Spec{Keep: job.Keep{Done: day}, Steps: []job.Step{
		{Name: "a", Spec: job.Spec{Handler: "a"}}, {Name: "b", Spec: job.Spec{Handler: "b", Keep: job.Keep{Logs: day}}},
	}}, Route: "default.5"}}
	for name, want := range map[string]job.Keep{"a": {Done: day}, "b": {Logs: day}} {
		if got := birth.Births(parent)(name).Spec.Keep; got != want {
			t.Errorf("step %s: %+v, want %+v", name, got, want)
		}
	}
}
