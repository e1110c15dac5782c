package task

import (
	"testing"
	"time"

	"millrace/task/value"
)

func TestKeep(t *testing.T) {
	const day = value.Duration(24 * time.Hour)
	for _, c := range []struct {
		name            string
		keep            Keep
		state           State
		output, records time.Duration
		says            string // why output is dropped
	}{
		{"the job says nothing", Keep{}, Finished, 0, 0, "keep.done"},
		{"done", Keep{Done: day, Failed: 7 * day}, Finished, day.Std(), day.Std(), "keep.done"},
		{"failed", Keep{Done: day, Failed: 7 * day}, Cancelled, 7 * day.Std(), 7 * day.Std(), "keep.failed"},
		{"logs sooner", Keep{Failed: 7 * day, Logs: day}, Error, day.Std(), 7 * day.Std(), "keep.logs"},
		{"logs alone", Keep{Logs: day}, Abnormal, day.Std(), 0, "keep.logs"},
		{"logs are never kept for longer", Keep{Done: day, Logs: 7 * day}, Finished, day.Std(), day.Std(), "keep.done"},
	} {
		output, says := c.keep.Output(c.state)
		records, _ := c.keep.Records(c.state)
		if output != c.output || records != c.records || says != c.says {
			t.Errorf("%s: output %v by %s, records %v", c.name, output, says, records)
		}
	}
	if err := (&Spec{Handler: "h", Keep: Keep{Logs: -1}}).Validate(); err == nil {
		t.Error("a time below zero is taken")
	}
	parent := &Task{ID: "01K9XA7F3BQZ8M4T2VJ6C0DPRN", Work: Work{Spec: &Spec{Keep: Keep{Done: day}, Steps: []Step{
		{Name: "a", Spec: Spec{Handler: "a"}}, {Name: "b", Spec: Spec{Handler: "b", Keep: Keep{Logs: day}}},
	}}, Route: "default.5"}}
	for name, want := range map[string]Keep{"a": {Done: day}, "b": {Logs: day}} {
		if got := Child(parent, name).Spec.Keep; got != want {
			t.Errorf("step %s: %+v, want %+v", name, got, want)
		}
	}
}
